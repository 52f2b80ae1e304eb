/** Requests of deliveries beside the lanes: test deliveries, and requests that are only shown. */
import { transaction, type Tx } from '#db/pool.ts';
import { dayOf } from '#core/ids.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { attempt, rowOf, unsentAttempt, type RunningAttempt, type ExchangeLimits } from './attempt.ts';
import {
  type EventRow,
  loadTargets,
  lockWebhook,
  insertTestDelivery,
  type TestAttemptRow,
  findPastSettings,
  loadEvents,
  type PastSettings,
} from '../delivery-sql.ts';
import { Connections, type ConnectionSettings } from './http/endpoint-connections.ts';
import { bodyOf, Composer, type ComposerSettings, type Body } from './attempt-request.ts';
import { activeTarget, type TargetRow, type ActiveTarget } from './delivery-target.ts';
import { keysAt } from '#core/keys.ts';
import { isTracing, withSpanId } from '#core/tracing.ts';
import { ENCRYPTED_TYPE } from './bodies.ts';
import { formats } from './formats.ts';

// Test deliveries: sent once, immediately and outside of the lanes, with the same guard, format, signatures and time-outs, even to a
// disabled or paused webhook. They do not change the webhook's health and need no worker; a stopping process discards running ones.

type TestDeliverySettings = ExchangeLimits &
  Omit<ConnectionSettings, 'idleSockets'> &
  ComposerSettings & { testDeliveriesAtOnce: number; testDeliveriesOfStore: number };

type TestDeliveryRuntime = Pick<Runtime, 'sql' | 'guard' | 'sealer' | 'clock' | 'log'>;

/** The event to send: created before it is sent, and stored in the transaction that records the attempt. */
export type Sample<Event extends EventRow> = {
  make: () => Promise<Event>;
  keep: (tx: Tx, event: Event) => Promise<void>;
};

type Key = { shard: number; id: number };
/** The webhook to test. */
type Tested = Key & { storeId: number };

export type TestResult =
  | { kind: 'sent'; event: EventRow; deliveryId: number; attempt: TestAttemptRow }
  /** Refused: this process is already testing the webhook (`under_way`) or others of its store (`store_full`), or has reached its limit (`full`). */
  | { kind: 'under_way' }
  | { kind: 'store_full' }
  | { kind: 'full' }
  /** The webhook is deleted, or has no URL. */
  | { kind: 'nowhere' }
  | { kind: 'stopping' };

export class TestDeliveries implements Running {
  readonly #runtime: TestDeliveryRuntime;
  readonly #settings: TestDeliverySettings;
  readonly #connections: Connections;
  readonly #composer: Composer;
  /** By webhook; without an attempt until it has begun. */
  readonly #running = new Map<number, { storeId: number; attempt?: RunningAttempt }>();
  #isStopping = false;

  constructor(runtime: TestDeliveryRuntime, settings: TestDeliverySettings) {
    this.#runtime = runtime;
    this.#settings = settings;
    this.#connections = new Connections(runtime, { ...settings, idleSockets: settings.testDeliveriesAtOnce });
    this.#composer = new Composer(settings);
  }

  /** Sends a test delivery; resolves when the endpoint has responded or timed out. */
  async send<Event extends EventRow>(webhook: Tested, sample: Sample<Event>): Promise<TestResult> {
    if (this.#isStopping) return { kind: 'stopping' };
    if (this.#running.has(webhook.id)) return { kind: 'under_way' };
    const { testDeliveriesAtOnce, testDeliveriesOfStore } = this.#settings;
    const ofStore = [...this.#running.values()].filter(({ storeId }) => storeId === webhook.storeId);
    if (ofStore.length >= testDeliveriesOfStore) return { kind: 'store_full' };
    if (this.#running.size >= testDeliveriesAtOnce) return { kind: 'full' };
    this.#running.set(webhook.id, { storeId: webhook.storeId });
    try {
      return await this.#send(webhook, sample);
    } finally {
      // Stops the attempt if the transaction failed meanwhile.
      this.#running.get(webhook.id)?.attempt?.abort();
      this.#running.delete(webhook.id);
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const { attempt: running } of this.#running.values()) running?.abort();
    await this.#connections.stop();
  }

  async #send<Event extends EventRow>(webhook: Key, sample: Sample<Event>): Promise<TestResult> {
    const { sql, clock, log } = this.#runtime;
    const event = await sample.make();
    const started = await this.#start(webhook, event);
    if (started === undefined) return { kind: 'nowhere' };
    const ended = await started.ended;
    if (ended === null) return { kind: 'stopping' };
    const now = clock.now();
    const { storeId, id: eventId } = event;
    const ids = { shard: webhook.shard, day: dayOf(now), storeId, webhookId: webhook.id, eventId };
    const row = { ...ids, ...rowOf(ended), now };
    const deliveryId = await transaction(sql, async (tx) => {
      await sample.keep(tx, event);
      return insertTestDelivery(tx, row);
    });
    log.info(
      { delivery: deliveryId, webhook: webhook.id, store: storeId, outcome: row.outcome, exchangeMs: row.durationMs },
      'test delivery sent',
    );
    return { kind: 'sent', event, deliveryId, attempt: row };
  }

  /**
   * Starts the attempt while the webhook's row is locked, so that none starts after a deletion is committed; a deletion
   * waits for the start only, not for the response. Returns undefined if there is no URL.
   */
  async #start(webhook: Key, event: EventRow): Promise<Pick<RunningAttempt, 'ended'> | undefined> {
    return transaction(this.#runtime.sql, async (tx) => {
      if (!(await lockWebhook(tx, webhook))) return undefined;
      const [row] = await loadTargets(tx, [webhook.shard], [webhook.id]);
      return row === undefined || row.url === null ? undefined : this.#attempt(row, event);
    });
  }

  /** Sends even if the webhook is disabled; a key that cannot be decrypted is an internal error. */
  #attempt(row: TargetRow, event: EventRow): Pick<RunningAttempt, 'ended'> {
    const { clock, log, sealer } = this.#runtime;
    try {
      const context = { webhookId: row.id, target: activeTarget(row, sealer), attempt: 1 };
      const deps = { composer: this.#composer, connections: this.#connections, clock, settings: this.#settings };
      const running = attempt(context, bodyOf(event), () => !this.#isStopping, deps);
      this.#running.set(row.id, { storeId: row.storeId, attempt: running });
      return running;
    } catch (error) {
      log.error({ err: error, webhook: row.id }, 'sending a test delivery failed');
      return { ended: Promise.resolve(unsentAttempt('threw', error, clock.now())) };
    }
  }
}

// Composes the request of a delivery for display, with the code that sends it: as it was sent, or would be. Without permission to see the
// key, parts made with the key are omitted.

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
  { webhookId, attempt: n, now, seesKey }: PreviewRequest,
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
  const context = { webhookId, target: shownTarget, attempt: n, now, traceContext };
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
    const [event] = await loadEvents(sql, [{ storeId: present.storeId, eventId }]);
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
