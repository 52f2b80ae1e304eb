/**
 * Composes the request of a delivery for display, with the code that sends it: as it was sent, or would be. Without
 * permission to see the key, parts made with the key are omitted.
 */
import type { Runtime } from '#runtime/runtime.ts';
import { keysAt } from '#core/keys.ts';
import { isTracing, withSpanId } from '#core/tracing.ts';
import { findPastSettings, loadTargets, loadEvents, type PastSettings } from '../delivery-sql.ts';
import { activeTarget, type ActiveTarget, type TargetRow } from './delivery-target.ts';
import { bodyOf, Composer, type Body, type ComposerSettings } from './attempt-request.ts';
import { ENCRYPTED_TYPE } from './bodies.ts';
import { formats } from './formats.ts';

/**
 * `revision`: that of the webhook with whose settings it was sent. `now`: when it went out, or would. `seesKey`: the reader may see the
 * secrets of the request and what is made with the key.
 */
type PreviewRequest = {
  shard: number;
  webhookId: number;
  eventId: number;
  revision: number;
  attempt: number;
  now: Date;
  seesKey: boolean;
};

type MadeRequest = {
  kind: 'made';
  /** Names and values alternate. */
  headers: readonly string[];
  body: Uint8Array;
  /** `body` is the plaintext of an encrypted body. */
  isEncrypted: boolean;
  /** Nothing of the key was left out or masked. */
  isWhole: boolean;
  /** The key may have been replaced since, so its signatures are not known. */
  isRekeyed: boolean;
  /** Values of headers or of the query of the url are hidden. */
  isHidden: boolean;
};

/** The sealed columns with the url. `isOther`: those at the revision are not kept, so the present settings were used. */
type Used = { columns: Pick<TargetRow, 'url' | 'headers' | 'requestSecrets'>; isOther: boolean };

type Previewed =
  | (Used & MadeRequest)
  /** The event was erased, or dropped by retention. */
  | (Used & { kind: 'gone' })
  /** The request cannot be composed, for example because the key cannot be decrypted. */
  | (Used & { kind: 'unusable' })
  /** The webhook has no URL and is not a pull webhook. */
  | { kind: 'nowhere' };

/** Replaces a token for every user, because it gives access to another platform. */
const MASKED = 'Bearer ••••••••';

/** Replaces the span id that an SDK gave the attempt: only the collector of the operator knows it. */
const SPAN_OF_SDK = '*'.repeat(16);

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
  { target, event, hadKey }: { target: ActiveTarget; event: Body; hadKey: boolean | undefined },
  composer: Composer,
): Omit<MadeRequest, 'kind' | 'isHidden'> {
  const hasKey = hadKey ?? keysAt(target, now).current !== null;
  const isRekeyed = hadKey !== undefined;
  const isToken = hasKey && formats[target.format].key === 'opens';
  const isEncrypted = hasKey && target.isEncrypted;
  const isWhole = !hasKey || (seesKey && !isToken && !isEncrypted && !isRekeyed);
  const { traceContext: ofEvent } = event.event;
  const traceContext = isTracing && ofEvent !== null ? withSpanId(ofEvent, SPAN_OF_SDK) : undefined;
  const shownTarget = isWhole && !isRekeyed ? target : withoutKeys(target);
  const context = { webhookId, target: shownTarget, attempt, now, traceContext };
  const { headers, body } = composer.compose(context, event);
  if (isToken) headers.push('authorization', MASKED);
  const sentHeaders = isEncrypted ? withContentType(headers, ENCRYPTED_TYPE) : headers;
  return { headers: sentHeaders, body, isEncrypted, isWhole, isRekeyed };
}

/** Returns whether requests of the revision were made with a key, if that may have been replaced since; otherwise undefined. */
function replacedKey(
  present: TargetRow,
  past: PastSettings | undefined,
  { revision, now }: PreviewRequest,
): boolean | undefined {
  if (past?.isRekeyed === true) return past.hasKey;
  if (present.rotatedAt !== null && now < present.rotatedAt) return true;
  // The key of an app is not in the webhook, whose revision rises with each change of it.
  return present.appOfKey !== null && present.revision !== revision ? true : undefined;
}

export type Preview = (request: PreviewRequest) => Promise<Previewed>;

/** `baseUrl`: where requests of pull webhooks are fetched. */
export function createPreview(
  { sql, sealer, log }: Pick<Runtime, 'sql' | 'sealer' | 'log'>,
  settings: ComposerSettings & { baseUrl: string },
): Preview {
  const composer = new Composer(settings);
  return async (request) => {
    const { shard, webhookId, eventId, revision } = request;
    const [present] = await loadTargets(sql, [shard], [webhookId]);
    if (present === undefined) return { kind: 'nowhere' };
    const isPast = revision < present.requestSince;
    const past = isPast ? await findPastSettings(sql, { shard, webhookId, revision }) : undefined;
    const row = { ...present, ...past };
    if (row.url === null && !row.isHeld) return { kind: 'nowhere' };
    const { url, headers, requestSecrets } = row;
    const used = { columns: { url, headers, requestSecrets }, isOther: isPast && past === undefined };
    const [event] = await loadEvents(sql, [shard], [eventId]);
    if (event === undefined) return { kind: 'gone', ...used };
    try {
      // A disabled webhook has requests that were sent; those of a pull webhook are fetched from `baseUrl`.
      const target = activeTarget(row, sealer, settings.baseUrl);
      const isHidden = !request.seesKey && (Object.keys(target.headers).length > 0 || target.url.search !== '');
      const shown = isHidden ? withoutValues(target) : target;
      const hadKey = used.isOther ? undefined : replacedKey(present, past, request);
      const made = makeRequest(request, { target: shown, event: bodyOf(event), hadKey }, composer);
      return { kind: 'made', ...used, isHidden, ...made };
    } catch (error) {
      log.warn({ err: error, webhook: webhookId, event: eventId }, 'composing a request preview failed');
      return { kind: 'unusable', ...used };
    }
  };
}
