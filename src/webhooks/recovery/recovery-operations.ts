/** The operations of recoveries: create (with the validation of its period), list, read, cancel. The shard owner executes them. */
import { Type, type Static } from 'typebox';
import { formatDate, parseDate } from '#hypermedia/date.ts';
import { invalidValue, conflict, type Fault, invalid, notFound, Problem } from '#core/problem.ts';
import type { Tx } from '#db/pool.ts';
import { countLoadedMissed, countMissed } from '#events/replay/recoveries.ts';
import {
  endRecovery,
  findOpen,
  findRecoverable,
  insertRecovery,
  stopOlder,
  type RecoveredPart,
} from '#events/replay/recoveries-sql.ts';
import { allEvents, type ResourceType } from '#catalog/catalog.ts';
import { closedObject, clearableText, flag, isSet } from '#http/inputs.ts';
import { beginning } from '#http/idempotency.ts';
import { listing } from '#http/list-operation.ts';
import { guarded, type ApiRequest, type Operation, type AddressedRequest } from '#http/operation.ts';
import type { Document } from '#hypermedia/document.ts';
import { dayOf, idOf, parseId, shardOf, startOfDay } from '#core/ids.ts';
import {
  CHANGE_SCOPES,
  READ_SCOPES,
  keyOf,
  maySendTo,
  requireSending,
  sendingWebhookOf,
  webhookOf,
  type WebhookDeps,
  lockWebhookOf,
} from '../webhook-access.ts';
import { breadcrumbLinks } from '../webhook-document.ts';
import { nextNumber, type WebhookRow } from '../webhook-sql.ts';
import {
  addressOfRecoveries,
  addressOfRecovery,
  isOpen,
  RECOVERY_PROPERTIES,
  recoveryDocument,
  versionOf,
} from './recovery.ts';
import { countRecoveries, findRecovery, listRecoveries, type RecoveryRow } from './recovery-sql.ts';

const DATE_LENGTH_MAX = 40;
const EVENT_LENGTH_MAX = 100;
const RESOURCE_ID_LENGTH_MAX = 255;
const RESPONSE_BODY_LENGTH_MAX = 1_000;
const DAY_MS = 86_400_000;

const createSchema = () =>
  closedObject({
    since: Type.String({
      minLength: 1,
      maxLength: DATE_LENGTH_MAX,
      kind: 'date',
      description: 'The start of the period to recover.',
    }),
    until: clearableText({
      maxLength: DATE_LENGTH_MAX,
      kind: 'date',
      description: 'The end of the period: events at this time or later are not sent. Default: now.',
    }),
    event: clearableText({
      maxLength: EVENT_LENGTH_MAX,
      choices: allEvents(),
      isMinor: true,
      description: 'Sends this event only, such as transaction/created. Default: all events of the webhook.',
    }),
    only_failed: flag({
      isMinor: true,
      description: 'Sends only events with a failed delivery, not those that occurred while the webhook was disabled.',
    }),
    resource_id: clearableText({
      maxLength: RESOURCE_ID_LENGTH_MAX,
      isMinor: true,
      description: 'Sends events of the resource with this ID only. An asterisk (*) matches any text.',
    }),
    response_code: Type.Optional(
      Type.Unsafe<number | null>({
        type: ['integer', 'null'],
        minimum: 100,
        maximum: 999,
        isMinor: true,
        description: 'Sends only events with a failed delivery whose last response had this status.',
      }),
    ),
    response_body: clearableText({
      maxLength: RESPONSE_BODY_LENGTH_MAX,
      isMinor: true,
      description:
        'Sends only events with a failed delivery whose last response is this text. An asterisk (*) matches any text.',
    }),
    loaded: flag({
      isMinor: true,
      description:
        'Sends the resources that were loaded and not published since, if they were modified in the period, instead of events.',
    }),
  });

type RecoveryBody = Partial<Static<ReturnType<typeof createSchema>>>;

const NO_DATE = 'must be a date such as 2026-11-20 or 2026-11-20T16:05:03+0000';

/** Members that are about events and their deliveries. */
const OF_EVENTS = ['event', 'only_failed', 'response_code', 'response_body'] as const;

/** What to recover: events, or with `isOfLoaded` resources. */
type RequestedPart = RecoveredPart & { isOfLoaded: boolean };

/** `timeZone`: of the store, for dates without an offset. */
type PartContext = { now: Date; retentionDays: number; timeZone: string };

/**
 * Returns the requested start, or a fault if it is no date, in the future, or before the retention period, which does not hold for
 * resources. For failed deliveries an earlier start is that of the oldest stored events: lists show these deliveries for part of a day
 * longer than events are promised.
 */
function readSince(
  since: string,
  { onlyFailed, isOfLoaded }: Pick<RequestedPart, 'onlyFailed' | 'isOfLoaded'>,
  { now, retentionDays, timeZone }: PartContext,
): Date | Fault {
  const at = parseDate(since, timeZone);
  if (at === undefined) return invalidValue('since', `since ${NO_DATE}`);
  if (at > now) return invalidValue('since', `since must not be in the future: now is ${formatDate(now, timeZone)}`);
  const earliest = new Date(now.getTime() - retentionDays * DAY_MS);
  if (at >= earliest || isOfLoaded) return at;
  if (onlyFailed) return new Date(Math.max(at.getTime(), startOfDay(dayOf(now) - retentionDays).getTime()));
  const kept = `events are kept for ${retentionDays} days`;
  return invalidValue('since', `since must not be before ${formatDate(earliest, timeZone)}: ${kept}`);
}

/** Returns the requested end, null for none, or a fault if it is no date or not after the start. */
function readUntil(until: string, since: Date | Fault, timeZone: string): Date | Fault | null {
  if (until === '') return null;
  const at = parseDate(until, timeZone);
  if (at === undefined) return invalidValue('until', `until ${NO_DATE}`);
  return since instanceof Date && at <= since ? invalidValue('until', 'until must be after since') : at;
}

/** Returns what to recover. Throws a 400 with all faults of the body. */
function readPart(body: RecoveryBody, context: PartContext): RequestedPart {
  const onlyFailed = isSet(body.only_failed);
  const isOfLoaded = isSet(body.loaded);
  const since = readSince(body.since ?? '', { onlyFailed, isOfLoaded }, context);
  const until = readUntil(body.until ?? '', since, context.timeZone);
  const faults = [since, until].flatMap((value) => (value === null || value instanceof Date ? [] : [value]));
  const ofEvents = OF_EVENTS.filter((name) => (name === 'only_failed' ? onlyFailed : Boolean(body[name])));
  if (isOfLoaded)
    faults.push(
      ...ofEvents.map((name) =>
        invalidValue(name, `${name} is about events: omit it, or loaded, which sends resources`),
      ),
    );
  if (faults.length > 0 || !(since instanceof Date)) throw invalid(...faults);
  return {
    since,
    until: until instanceof Date ? until : null,
    event: body.event || null,
    onlyFailed,
    resourceId: body.resource_id || null,
    responseCode: body.response_code ?? null,
    responseBody: body.response_body || null,
    isOfLoaded,
  };
}

type Deps = Pick<WebhookDeps, 'sql' | 'config' | 'announce'>;

/** Throws a 409 if recovered deliveries could not be sent, and a 400 if the webhook does not subscribe to the event to recover. */
function checkCanRecover({ isActive, isHeld, url, events }: WebhookRow, { event }: RecoveredPart): void {
  if (!isActive) throw conflict('inactive', 'The webhook is disabled: set is_active to "1" first');
  if (isHeld) {
    throw conflict('is_held', 'A pull webhook cannot recover missed events: publish them again');
  }
  if (url === null) throw conflict('no_url', 'The webhook has no url: set url first');
  if (events.length === 0) throw conflict('no_events', 'The webhook has no events: set event_resource first');
  if (event !== null && !events.includes(event))
    throw invalid(invalidValue('event', `event must be one of this webhook's: ${events.join(', ')}`));
}

/** Returns the type of the resources that the webhook is sent; one with events has a type. */
function typeOf({ id, eventResource }: WebhookRow): ResourceType {
  if (eventResource === null) throw new TypeError(`Webhook ${id} has events of no resource type`);
  return eventResource;
}

/** Throws a 409 if a recovery of the webhook is open; `Location` is its URL. */
async function checkNoOpenRecovery(tx: Tx, { id: webhookId }: WebhookRow, baseUrl: string): Promise<void> {
  const id = await findOpen(tx, { shard: shardOf(webhookId), webhookId });
  if (id === undefined) return;
  const Location = addressOfRecovery({ id, webhookId }, baseUrl);
  const message = `A recovery of this webhook is open: wait until it ends, or POST to ${Location}/cancel`;
  throw new Problem(409, { code: 'already_open', message }, { headers: { Location } });
}

/** Creates the recovery under the lock of the webhook, so that later publishes see the webhook as it is now. */
async function openRecovery(
  tx: Tx,
  { config: { baseUrl }, announce }: Deps,
  request: Pick<ApiRequest, 'params' | 'principal' | 'now'>,
  { isOfLoaded, ...part }: RequestedPart,
): Promise<{ webhook: WebhookRow; row: RecoveryRow }> {
  const key = keyOf(request);
  const webhook = await lockWebhookOf(tx, request);
  checkCanRecover(webhook, part);
  const { shard, id: webhookId } = key;
  const { storeId, epoch } = webhook;
  const loadedType = isOfLoaded ? typeOf(webhook) : null;
  const { now } = request;
  await stopOlder(tx, { shard, webhookId, epoch, now });
  await checkNoOpenRecovery(tx, webhook, baseUrl);
  const id = idOf(await nextNumber(tx), shard);
  await insertRecovery(tx, { shard, id, storeId, webhookId, epoch, ...part, loadedType, now });
  await announce(tx, shard, [webhookId]);
  const row = await findRecovery(tx, { shard, webhookId, id });
  if (row === undefined) throw new Error(`Recovery ${id} not found after its insert`);
  return { webhook, row };
}

async function recoveryOf(deps: Deps, request: AddressedRequest) {
  const webhook = await webhookOf(deps.sql, request);
  const id = parseId(request.params['recovery_id'] ?? '');
  const key = { shard: shardOf(webhook.id), webhookId: webhook.id };
  const row = id === undefined ? undefined : await findRecovery(deps.sql, { ...key, id });
  if (row === undefined) throw notFound('recovery');
  return { webhook, row };
}

const whole = new Intl.NumberFormat('en');

/** Returns what a recovery of the part would send, in words. Throws as the recovery does if it could not begin. */
async function countOf(
  { sql }: Deps,
  request: Pick<ApiRequest, 'params' | 'principal' | 'now'>,
  { isOfLoaded, ...part }: RequestedPart,
): Promise<string> {
  const webhook = await webhookOf(sql, request);
  checkCanRecover(webhook, part);
  const { shard, id: webhookId } = keyOf(request);
  const { storeId } = webhook;
  const recoverable = await findRecoverable(sql, { shard, webhookId, event: part.event });
  if (recoverable === undefined) throw notFound('webhook');
  const { count, isMore } = isOfLoaded
    ? await countLoadedMissed(sql, { shard, storeId, loadedType: typeOf(webhook), ...part })
    : await countMissed(sql, { shard, storeId, webhookId, ...recoverable, ...part }, request.now);
  if (isMore) return `${whole.format(count)} or more ${isOfLoaded ? 'resources' : 'events'} would be sent.`;
  const one = isOfLoaded ? 'resource' : 'event';
  return `${whole.format(count)} ${count === 1 ? one : `${one}s`} would be sent.`;
}

const createRecover = (deps: Deps): Operation =>
  beginning({
    title: 'Recover what was missed',
    summary:
      'Sends the events since a date that this webhook missed: those with neither a successful nor a pending delivery',
    scopes: CHANGE_SCOPES,
    input: createSchema(),
    admit: async (request) => void (await sendingWebhookOf(deps.sql, request)),
    prepare: async (request) => {
      const { timeZone } = await webhookOf(deps.sql, request);
      return readPart(request.body, { now: request.now, retentionDays: deps.config.database.retentionDays, timeZone });
    },
    preview: { title: 'Count the events', handle: (request, part) => countOf(deps, request, part) },
    make: async (tx, request, part) => {
      const { webhook, row } = await openRecovery(tx, deps, request, part);
      const { baseUrl } = deps.config;
      return { document: recoveryDocument(row, webhook, { baseUrl }), location: addressOfRecovery(row, baseUrl) };
    },
  });

/**
 * Cancels a recovery; idempotent. The recovery stays readable, so this is not a DELETE, and its deliveries are still sent. Throws
 * a 409 if it had already ended otherwise.
 */
async function cancel(deps: Deps, request: ApiRequest): Promise<Document> {
  const { webhook, row } = await recoveryOf(deps, request);
  requireSending(request.principal, webhook);
  request.unmodified(versionOf(row));
  if (isOpen(row)) await endRecovery(deps.sql, { shard: shardOf(webhook.id), id: row.id }, 'cancelled', request.now);
  const { row: after } = await recoveryOf(deps, request);
  if (after.state === 'cancelled') return recoveryDocument(after, webhook, deps.config);
  throw conflict('ended', 'The recovery has already ended');
}

export function createRecoveries(deps: Deps): Record<'recover' | 'list' | 'read' | 'cancel', Operation> {
  return {
    recover: createRecover(deps),
    list: listing({
      summary: 'The recoveries of this webhook, newest first, paged',
      scopes: READ_SCOPES,
      rel: 'recoveries',
      title: 'The recoveries of this webhook',
      properties: RECOVERY_PROPERTIES,
      zone: async (request) => (await webhookOf(deps.sql, request)).timeZone,
      handle: async (request) => {
        const webhook = await webhookOf(deps.sql, request);
        const { id: webhookId, timeZone } = webhook;
        const key = { shard: shardOf(webhookId), webhookId };
        const [rows, total] = await Promise.all([
          listRecoveries(deps.sql, key, request.listing),
          countRecoveries(deps.sql, key, request.listing),
        ]);
        const links = breadcrumbLinks(webhook, deps.config.baseUrl);
        const shown = { baseUrl: deps.config.baseUrl, isSendable: maySendTo(request.principal, webhook) };
        const items = rows.map((row) => recoveryDocument(row, webhook, shown));
        return { path: addressOfRecoveries(webhookId, deps.config.baseUrl), items, total, links, timeZone };
      },
    }),
    read: guarded({
      summary: 'A recovery and its progress',
      scopes: READ_SCOPES,
      handle: async (request) => {
        const { webhook, row } = await recoveryOf(deps, request);
        const isSendable = maySendTo(request.principal, webhook);
        return { status: 200, document: recoveryDocument(row, webhook, { baseUrl: deps.config.baseUrl, isSendable }) };
      },
    }),
    cancel: guarded({
      title: 'Cancel this recovery',
      isConditional: true,
      summary: 'Ends the recovery, which stays readable; deliveries that it has created are still sent',
      scopes: CHANGE_SCOPES,
      handle: async (request) => ({ status: 200, document: await cancel(deps, request) }),
    }),
  };
}
