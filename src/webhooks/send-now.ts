/** What a person has sent at once: pending deliveries, before their due times and in a pause of their webhook, and sample events. */
import type { Static } from 'typebox';
import { allEvents, eventsOf, type ResourceType } from '#catalog/catalog.ts';
import { closedObject, clearableText } from '#http/inputs.ts';
import { accepting, type ApiRequest, type Operation, type AddressedRequest } from '#http/operation.ts';
import { transaction, type Tx } from '#db/pool.ts';
import type { SampleAbout } from '#events/sample-events.ts';
import { invalidValue, conflict, invalid, notFound, type Problem, temporary } from '#core/problem.ts';
import { shardOf } from '#core/ids.ts';
import { findDeclaring } from './app-access/app-access-sql.ts';
import {
  CHANGE_SCOPES,
  keyOf,
  sendingWebhookOf,
  webhookOf,
  type WebhookDeps,
  requireNotSuspended,
  requireStoreNotSuspended,
  documentFor,
  requireSending,
  type Retry,
  lockWebhookOf,
} from './webhook-access.ts';
import { addressOfDelivery, attemptDocument, deliveryDocument } from './history/history-documents.ts';
import type { AttemptRow, DeliveryRow } from './history/history-sql.ts';
import { lockWebhook, type WebhookRow } from './webhook-sql.ts';
import { addressOfWebhook } from './webhook-document.ts';
import { deliveryOf, deliveryWith } from './history/delivery-details.ts';

/**
 * Returns what to retry: one delivery of the webhook, or all that are pending. `now`: read after the row of the webhook was locked,
 * because deliveries that became due meanwhile may be under way.
 */
export function retryOf({ id, epoch }: Pick<WebhookRow, 'id' | 'epoch'>, now: Date, deliveryId?: number): Retry {
  return { shard: shardOf(id), webhookId: id, epoch, deliveryId, now };
}

/** Returns the locked webhook. Throws a 404 or 403 like `sendingWebhookOf`, and a 409 if no worker sends its deliveries. */
async function lockSending(tx: Tx, request: AddressedRequest): Promise<WebhookRow> {
  const webhook = await lockWebhookOf(tx, request);
  requireSending(request.principal, webhook);
  if (webhook.isHeld) throw conflict('is_held', 'The deliveries of a pull webhook wait for its listener');
  if (!webhook.isActive) throw conflict('inactive', 'The webhook is disabled: enable it first');
  return webhook;
}

/** What both retries have in common: they need no body, and the deliveries are attempted after the response. */
const RETRY = { scopes: CHANGE_SCOPES, statuses: [202], input: closedObject({}) } as const;

export function createRetries(deps: WebhookDeps): Record<'retryDelivery' | 'retryPending', Operation> {
  const { sql, clock, config, retryNow } = deps;
  const { baseUrl } = config;
  const admit = async (request: ApiRequest) => void (await webhookOf(sql, request));
  return {
    /** Retries one pending delivery; the attempt is charged. */
    retryDelivery: accepting({
      ...RETRY,
      title: 'Retry now',
      summary: 'Attempts this pending delivery at once, before its next attempt is due; the attempt counts',
      admit,
      handle: async (request) => {
        const { webhook, delivery } = await transaction(sql, async (tx) => {
          const locked = await lockSending(tx, request);
          const { id, status } = await deliveryOf(tx, locked, request);
          if (status !== 'pending') throw conflict('not_pending', 'The delivery has ended: send it again by resend');
          await retryNow(tx, retryOf(locked, clock.now(), id));
          const retried = await deliveryWith(tx, { ...locked, heldUntil: null }, id);
          if (retried === undefined) throw new Error(`Delivery ${id} not found after its update`);
          return { webhook: locked, delivery: retried };
        });
        const location = addressOfDelivery(delivery.id, webhook, baseUrl);
        const document = deliveryDocument(delivery, webhook, baseUrl);
        return { status: 202, document, location, next: location, done: 'retried' };
      },
    }),
    /** Retries all pending deliveries of a webhook. */
    retryPending: accepting({
      ...RETRY,
      title: 'Retry pending deliveries now',
      summary: 'Attempts all pending deliveries at once, before their next attempts are due; the attempts count',
      admit,
      handle: async (request) => {
        const webhook = await transaction(sql, async (tx) => {
          const locked = await lockSending(tx, request);
          await retryNow(tx, retryOf(locked, clock.now()));
          return { ...locked, pausedUntil: null, heldUntil: null };
        });
        const location = addressOfWebhook(webhook.id, baseUrl);
        const document = documentFor(deps, webhook, request);
        return { status: 202, document, location, next: location, done: 'retried' };
      },
    }),
  };
}

const EVENT_LENGTH_MAX = 100;

const createSchema = () =>
  closedObject({
    event: clearableText({
      maxLength: EVENT_LENGTH_MAX,
      choices: allEvents(),
      description: 'The event name of the sample, such as transaction/created. Default: <resource>/test.',
    }),
  });

type TestBody = Static<ReturnType<typeof createSchema>>;

/** A delivery of a sample that waits for a listener. */
type QueuedSample = Pick<DeliveryRow, 'id' | 'eventId' | 'type' | 'resourceId' | 'action'>;

/** `isHeld`: the sample is queued for the listener of a pull webhook instead of being sent. Settings of the webhook determine the request. */
type Sample = SampleAbout & { shard: number; webhookId: number; isHeld: boolean };

/** Why a sample was not sent. `nowhere`: the webhook was deleted or lost its url meanwhile. */
type Unsent = 'under_way' | 'store_full' | 'full' | 'nowhere' | 'stopping';

/** Sends a sample once and returns the attempt, or the queued delivery. */
export type SendSample = (
  sample: Sample,
) => Promise<{ kind: 'sent'; attempt: AttemptRow } | { kind: 'queued'; delivery: QueuedSample } | { kind: Unsent }>;

/** The initial state of a delivery. */
const PENDING = {
  status: 'pending',
  attempts: 0,
  dateNext: null,
  dateEnded: null,
  resentAs: null,
  outcome: null,
  responseCode: null,
} as const;

const RETRY_AFTER_SECONDS = 5;

/** The status, code and message for a sample that can be sent later. */
const SENT_LATER = {
  under_way: [429, 'too_many_requests', 'A test of this webhook is running: wait until it ends'],
  store_full: [429, 'too_many_requests', 'Other webhooks of this store are being tested: wait until a test ends'],
  full: [503, 'busy', 'Too many tests are running: try again in a few seconds'],
  stopping: [503, 'unavailable', 'The service is stopping: try again shortly'],
} as const satisfies Readonly<Record<string, readonly [status: 429 | 503, code: string, message: string]>>;

const NO_URL = 'The webhook has no url: set url first';

function problemOf(kind: Unsent): Problem {
  if (kind === 'nowhere') return notFound('webhook');
  const [status, code, message] = SENT_LATER[kind];
  return temporary(status, { code, message }, RETRY_AFTER_SECONDS);
}

/** Returns the action of the requested event; null if none was requested. Throws a 400 for an event of another resource. */
function actionOf({ event }: TestBody, type: ResourceType): string | null {
  if (!event) return null;
  const events = eventsOf(type);
  if (events.includes(event)) return event.slice(type.length + 1);
  const message = `event must be one of this webhook's resource: ${events.join(', ')}`;
  throw invalid(invalidValue('event', message));
}

const isInBackoff = ({ consecutiveFailures, heldUntil }: WebhookRow, now: Date): boolean =>
  consecutiveFailures > 0 || (heldUntil !== null && heldUntil > now);

/**
 * Retries the pending deliveries of a failing or paused webhook after a successful test. Those of another webhook keep their due
 * times: a few that its endpoint rejects would use up their attempts by tests. The test was sent and recorded, so an error is logged.
 */
async function retryAfterRepair(deps: WebhookDeps, request: AddressedRequest): Promise<void> {
  try {
    await transaction(deps.sql, async (tx) => {
      const webhook = await lockWebhook(tx, keyOf(request));
      const now = deps.clock.now();
      if (webhook?.isActive === true && !webhook.isHeld && isInBackoff(webhook, now))
        await deps.retryNow(tx, retryOf(webhook, now));
    });
  } catch (error) {
    deps.log.warn({ err: error, webhook: keyOf(request).id }, 'pending deliveries could not be retried after a test');
  }
}

/** Returns the `client_id` of the app that declares the webhook; null if it is another webhook. */
async function declaringOf(
  { sql, accounts }: WebhookDeps,
  { client, isForApp }: Pick<WebhookRow, 'client' | 'isForApp'>,
): Promise<string | null> {
  if (!isForApp || client === null) return null;
  const [app] = await findDeclaring(accounts.of(sql), { client });
  // The webhooks of the app are deleted with the declaration.
  if (app === undefined) throw notFound('webhook');
  return app.clientId;
}

export function createTest(deps: WebhookDeps): Operation {
  const { baseUrl } = deps.config;
  return accepting({
    title: 'Send a sample event',
    summary:
      'Sends a sample event once, even if the webhook is disabled, and returns the response; it does not count as a failure. For a pull webhook the sample is queued (202)',
    scopes: CHANGE_SCOPES,
    statuses: [200, 202],
    input: createSchema(),
    admit: async (request) => void (await webhookOf(deps.sql, request)),
    handle: async (request) => {
      const webhook = await sendingWebhookOf(deps.sql, request);
      const { storeId, eventResource: type, timeZone, isHeld } = webhook;
      if (webhook.url === null && !isHeld) throw conflict('no_url', NO_URL);
      await requireNotSuspended(deps.sql, deps.accounts, {
        caller: request.principal.clientId,
        ofWebhook: webhook.client,
      });
      await requireStoreNotSuspended(deps.sql, { shard: keyOf(request).shard, storeId });
      if (type === null) {
        throw conflict('no_events', 'The webhook has no events: set event_resource or events first');
      }
      const action = actionOf(request.body, type);
      const { shard, id } = keyOf(request);
      const { now } = request;
      const about = { storeId, clientId: await declaringOf(deps, webhook), type, action, timeZone, now };
      const result = await deps.sendSample({ shard, webhookId: id, isHeld, ...about });
      if (result.kind === 'sent') {
        if (result.attempt.outcome === 'delivered') await retryAfterRepair(deps, request);
        // A browser is redirected to the delivery, which explains a failure.
        const next = addressOfDelivery(result.attempt.deliveryId, webhook, baseUrl);
        return { status: 200, document: attemptDocument(result.attempt, webhook, baseUrl), next, done: 'sent' };
      }
      if (result.kind !== 'queued') throw problemOf(result.kind);
      const row = { ...PENDING, ...result.delivery, dateCreated: now };
      const location = addressOfDelivery(row.id, webhook, baseUrl);
      return { status: 202, document: deliveryDocument(row, webhook, baseUrl), location };
    },
  });
}
