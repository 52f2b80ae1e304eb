/**
 * The request of a delivery, made to be looked at by the code that sends it: what went out, or would go. Nothing is sent, and
 * who may not see the key is shown what is made without it.
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

/** `now`: when it went out, or would. `seesKey`: the reader may see the secrets of the request and what is made with the key. */
type Asked = {
  shard: number;
  webhookId: number;
  eventId: number;
  attempt: number;
  now: Date;
  seesKey: boolean;
};

type Made = {
  kind: 'made';
  /** The webhook's, by whose settings it was made. */
  revision: number;
  /** Each name is followed by its value. */
  headers: readonly string[];
  body: Uint8Array;
  /** `body` is what is inside of what travels. */
  isEncrypted: boolean;
  /** Nothing of the key was left out or masked. */
  isWhole: boolean;
  /** Values of headers or of the query of the url are hidden. */
  isHidden: boolean;
};

type Previewed =
  | Made
  /** The event was erased, or retention has dropped it. */
  | { kind: 'gone' }
  /** The webhook has no url, and is not held either. */
  | { kind: 'nowhere' }
  /** It cannot be made: the key does not open, say. */
  | { kind: 'unusable' };

/** In place of a token, whoever looks: it opens another platform. */
const MASKED = 'Bearer ••••••••';

const withoutKeys = (target: ActiveTarget): ActiveTarget => ({
  ...target,
  encryptionKey: null,
  nextEncryptionKey: null,
  rotationEndsAt: null,
});

const HIDDEN = '***';

const withoutValues = (target: ActiveTarget): ActiveTarget => ({
  ...target,
  headers: Object.fromEntries(Object.keys(target.headers).map((name) => [name, HIDDEN])),
});

/** What is encrypted anew for each attempt never has the same bytes twice, nor signatures that could be shown for it. */
const withType = (headers: readonly string[], contentType: string): string[] =>
  headers.map((text, at) => (headers[at - 1] === 'content-type' ? contentType : text));

/** Throws where it cannot be made. */
const made = (
  { webhookId, attempt, now, seesKey }: Asked,
  target: ActiveTarget,
  event: EventRow,
  { bodies, settings }: { bodies: Bodies; settings: MessageSettings },
): Omit<Made, 'kind' | 'revision' | 'isHidden'> => {
  const hasKey = keysAt(target, now).current !== null;
  const isToken = hasKey && formats[target.format].key === 'opens';
  const isEncrypted = hasKey && target.isEncrypted;
  const isWhole = !hasKey || (seesKey && !isToken && !isEncrypted);
  const occasion = { webhookId, target: isWhole ? target : withoutKeys(target), attempt, now };
  const { headers, body } = compose(occasion, { event, rendered: null }, { bodies, settings });
  if (isToken) headers.push('authorization', MASKED);
  return { headers: isEncrypted ? withType(headers, ENCRYPTED_TYPE) : headers, body, isEncrypted, isWhole };
};

export type Preview = (asked: Asked) => Promise<Previewed>;

export const createPreview = ({ sql, sealer, log, baseUrl, settings }: PreviewDeps): Preview => {
  const bodies = new Bodies({ sql, ...settings });
  return async (asked) => {
    const { shard, webhookId, eventId } = asked;
    const [row] = await loadTargets(sql, shard, [webhookId]);
    if (row === undefined || (row.url === null && !row.isHeld)) return { kind: 'nowhere' };
    const [kept] = await loadEvents(sql, shard, [eventId]);
    if (kept === undefined) return { kind: 'gone' };
    const event = { ...kept, action: sentAction(kept.action) };
    try {
      // Also what is off has a request that went out; what is held is fetched where the API is.
      const target = activeTarget(row, sealer, baseUrl);
      const isHidden = !asked.seesKey && (Object.keys(target.headers).length > 0 || target.url.search !== '');
      const shown = isHidden ? withoutValues(target) : target;
      return { kind: 'made', revision: row.revision, isHidden, ...made(asked, shown, event, { bodies, settings }) };
    } catch (error) {
      log.warn({ err: error, webhook: webhookId, event: eventId }, 'a request cannot be shown');
      return { kind: 'unusable' };
    }
  };
};
