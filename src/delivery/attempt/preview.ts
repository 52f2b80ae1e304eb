/**
 * The request of a delivery, makeRequest to be looked at by the code that sends it: what went out, or would go. Nothing is sent, and
 * who may not see the key is shown what is makeRequest without it.
 */
import { sentAction } from '#catalog/sample.ts';
import type { Sql } from '#db/pool.ts';
import type { Sealer } from '#db/seal.ts';
import type { Log } from '#core/log.ts';
import { keysAt } from '#core/rotation.ts';
import { loadTargets } from '../queue/queue-sql.ts';
import { activeTarget, type ActiveTarget } from '../queue/target.ts';
import { Bodies } from './bodies.ts';
import { compose, type MessageSettings } from './compose.ts';
import { ENCRYPTED_TYPE } from './encrypt.ts';
import { formats } from './formats/formats.ts';
import { loadEvents, type EventRow } from './event-sql.ts';

type PreviewDeps = {
  sql: Sql;
  sealer: Sealer;
  log: Log;
  baseUrl: string;
  settings: MessageSettings & { bodyCacheBytes: number; relationPrefix: string };
};

/** `now`: when it went out, or would. `seesKey`: whoever looks may see what is makeRequest with the key. */
type PreviewRequest = {
  shard: number;
  webhookId: number;
  eventId: number;
  attempt: number;
  now: Date;
  seesKey: boolean;
};

type MadeRequest = {
  kind: 'made';
  /** The webhook's, by whose settings it was makeRequest. */
  revision: number;
  /** Each name is followed by its value. */
  headers: readonly string[];
  body: Uint8Array;
  /** `body` is what is inside of what travels. */
  isEncrypted: boolean;
  /** Nothing was left out or masked. */
  isWhole: boolean;
};

type Previewed =
  | MadeRequest
  /** The event was erased, or retention has dropped it. */
  | { kind: 'gone' }
  /** The webhook has no url, and is not held either. */
  | { kind: 'nowhere' }
  /** It cannot be makeRequest: the key does not open, say. */
  | { kind: 'unusable' };

/** In place of a token, whoever looks: it opens another platform. */
const MASKED = 'Bearer ••••••••';

const withoutKeys = (target: ActiveTarget): ActiveTarget => ({
  ...target,
  encryptionKey: null,
  nextEncryptionKey: null,
  rotationEndsAt: null,
});

/** What is encrypted anew for each attempt never has the same bytes twice, nor signatures that could be shown for it. */
const withContentType = (headers: readonly string[], contentType: string): string[] =>
  headers.map((text, at) => (headers[at - 1] === 'content-type' ? contentType : text));

/** Throws where it cannot be makeRequest. */
const makeRequest = (
  { webhookId, attempt, now, seesKey }: PreviewRequest,
  target: ActiveTarget,
  event: EventRow,
  { bodies, settings }: { bodies: Bodies; settings: MessageSettings },
): Pick<MadeRequest, 'headers' | 'body' | 'isEncrypted' | 'isWhole'> => {
  const hasKey = keysAt(target, now).current !== null;
  const isToken = hasKey && formats[target.format].key === 'opens';
  const isEncrypted = hasKey && target.isEncrypted;
  const isWhole = !hasKey || (seesKey && !isToken && !isEncrypted);
  const context = { webhookId, target: isWhole ? target : withoutKeys(target), attempt, now };
  const { headers, body } = compose(context, { event, rendered: null }, { bodies, settings });
  if (isToken) headers.push('authorization', MASKED);
  return { headers: isEncrypted ? withContentType(headers, ENCRYPTED_TYPE) : headers, body, isEncrypted, isWhole };
};

export type Preview = (request: PreviewRequest) => Promise<Previewed>;

export const createPreview = ({ sql, sealer, log, baseUrl, settings }: PreviewDeps): Preview => {
  const bodies = new Bodies({ sql, ...settings });
  return async (request) => {
    const { shard, webhookId, eventId } = request;
    const [row] = await loadTargets(sql, shard, [webhookId]);
    // What is held is fetched where the API is.
    const url = row?.isHeld === true ? baseUrl : (row?.url ?? null);
    if (row === undefined || url === null) return { kind: 'nowhere' };
    const [stored] = await loadEvents(sql, shard, [eventId]);
    if (stored === undefined) return { kind: 'gone' };
    const event = { ...stored, action: sentAction(stored.action) };
    try {
      // Also what is off has a request that went out.
      const target = activeTarget(row, new URL(url), sealer);
      return { kind: 'made', revision: row.revision, ...makeRequest(request, target, event, { bodies, settings }) };
    } catch (error) {
      log.warn({ err: error, webhook: webhookId, event: eventId }, 'a request cannot be shown');
      return { kind: 'unusable' };
    }
  };
};
