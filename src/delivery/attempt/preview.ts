/**
 * Composes the request of a delivery for display, with the code that sends it: as it was sent, or would be. Without
 * permission to see the key, parts made with the key are omitted.
 */
import type { Runtime } from '#runtime/runtime.ts';
import { keysAt } from '#core/keys.ts';
import { loadTargets, loadEvents } from '../delivery-sql.ts';
import { activeTarget, type ActiveTarget } from './delivery-target.ts';
import { bodyOf, Composer, type Body, type ComposerSettings } from './attempt-request.ts';
import { ENCRYPTED_TYPE } from './bodies.ts';
import { formats } from './formats.ts';

/** `now`: when it went out, or would. `seesKey`: the reader may see the secrets of the request and what is made with the key. */
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
  /** The revision of the webhook whose settings were used. */
  revision: number;
  /** Names and values alternate. */
  headers: readonly string[];
  body: Uint8Array;
  /** `body` is the plaintext of an encrypted body. */
  isEncrypted: boolean;
  /** Nothing of the key was left out or masked. */
  isWhole: boolean;
  /** Values of headers or of the query of the url are hidden. */
  isHidden: boolean;
};

type Previewed =
  | MadeRequest
  /** The event was erased, or dropped by retention. */
  | { kind: 'gone' }
  /** The webhook has no URL and is not a pull webhook. */
  | { kind: 'nowhere' }
  /** The request cannot be composed, for example because the key cannot be decrypted. */
  | { kind: 'unusable' };

/** Replaces a token for every user, because it gives access to another platform. */
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

/** Encryption differs for each attempt, so neither encrypted bytes nor their signatures can be shown. */
const withContentType = (headers: readonly string[], contentType: string): string[] =>
  headers.map((text, at) => (headers[at - 1] === 'content-type' ? contentType : text));

/** Throws if the request cannot be composed. */
function makeRequest(
  { webhookId, attempt, now, seesKey }: PreviewRequest,
  target: ActiveTarget,
  event: Body,
  composer: Composer,
): Omit<MadeRequest, 'kind' | 'revision' | 'isHidden'> {
  const hasKey = keysAt(target, now).current !== null;
  const isToken = hasKey && formats[target.format].key === 'opens';
  const isEncrypted = hasKey && target.isEncrypted;
  const isWhole = !hasKey || (seesKey && !isToken && !isEncrypted);
  const context = { webhookId, target: isWhole ? target : withoutKeys(target), attempt, now };
  const { headers, body } = composer.compose(context, event);
  if (isToken) headers.push('authorization', MASKED);
  return { headers: isEncrypted ? withContentType(headers, ENCRYPTED_TYPE) : headers, body, isEncrypted, isWhole };
}

export type Preview = (request: PreviewRequest) => Promise<Previewed>;

/** `baseUrl`: where requests of pull webhooks are fetched. */
export function createPreview(
  { sql, sealer, log }: Pick<Runtime, 'sql' | 'sealer' | 'log'>,
  settings: ComposerSettings & { baseUrl: string },
): Preview {
  const composer = new Composer(settings);
  return async (request) => {
    const { shard, webhookId, eventId } = request;
    const [row] = await loadTargets(sql, [shard], [webhookId]);
    if (row === undefined || (row.url === null && !row.isHeld)) return { kind: 'nowhere' };
    const [event] = await loadEvents(sql, [shard], [eventId]);
    if (event === undefined) return { kind: 'gone' };
    try {
      // A disabled webhook has requests that were sent; those of a pull webhook are fetched from `baseUrl`.
      const target = activeTarget(row, sealer, settings.baseUrl);
      const isHidden = !request.seesKey && (Object.keys(target.headers).length > 0 || target.url.search !== '');
      const shown = isHidden ? withoutValues(target) : target;
      return {
        kind: 'made',
        revision: row.revision,
        isHidden,
        ...makeRequest(request, shown, bodyOf(event), composer),
      };
    } catch (error) {
      log.warn({ err: error, webhook: webhookId, event: eventId }, 'composing a request preview failed');
      return { kind: 'unusable' };
    }
  };
}
