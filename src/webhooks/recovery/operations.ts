/** The operations of recoveries: create (with the validation of its period), list, read, cancel. The shard owner executes them. */
import { Type, type Static } from 'typebox';
import { formatDate, parseDate } from '#hypermedia/date.ts';
import { type Fault, invalid, notFound, Problem } from '#core/problem.ts';
import type { Tx } from '#db/pool.ts';
import { endRecovery, findOpen, insertRecovery, stopOlder } from '#events/replay/recovery-sql.ts';
import { beginning } from '#http/creating.ts';
import { listing } from '#http/listing.ts';
import { guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import type { Document } from '#hypermedia/document.ts';
import { idOf, parseId, shardOf } from '#core/ids.ts';
import { keyOf, webhookOf, type WebhookDeps } from '../access.ts';
import { breadcrumbLinks } from '../document.ts';
import { lockWebhook, nextNumber, type WebhookRow } from '../webhook-sql.ts';
import {
  addressOfRecoveries,
  addressOfRecovery,
  isOpen,
  RECOVERY_PROPERTIES,
  recoveryDocument,
  versionOf,
} from './document.ts';
import { countRecoveries, findRecovery, listRecoveries, type RecoveryRow } from './recovery-sql.ts';

const DATE_LENGTH_MAX = 40;
const DAY_MS = 86_400_000;

const recoverySchema = Type.Object(
  {
    since: Type.String({
      minLength: 1,
      maxLength: DATE_LENGTH_MAX,
      kind: 'date',
      description: 'The start of the period to recover, such as 2026-11-20 or 2026-11-20T16:05:03+0000.',
    }),
  },
  { additionalProperties: false },
);

type RecoveryBody = Partial<Static<typeof recoverySchema>>;

const invalidSince = (message: string): { fault: Fault } => ({
  fault: { code: 'invalid_value', message, field: 'since' },
});

/** Returns the requested start, or a fault if it is no date, in the future, or before the retention period. */
function readSince(
  { since = '' }: RecoveryBody,
  { now, retentionDays }: { now: Date; retentionDays: number },
): { since: Date } | { fault: Fault } {
  const at = parseDate(since);
  if (at === undefined) return invalidSince('since must be a date such as 2026-11-20 or 2026-11-20T16:05:03+0000');
  if (at > now) return invalidSince(`since must not be in the future: now is ${formatDate(now, 'UTC')}`);
  const earliest = new Date(now.getTime() - retentionDays * DAY_MS);
  if (at >= earliest) return { since: at };
  const kept = `events are kept for ${retentionDays} days`;
  return invalidSince(`since must not be before ${formatDate(earliest, 'UTC')}: ${kept}`);
}

export type RecoveryDeps = Pick<WebhookDeps, 'sql' | 'baseUrl'> & { retentionDays: number };

const conflict = (code: string, message: string): Problem => new Problem(409, { code, message });

/** Throws a 409 if recovered deliveries could not be sent. */
function checkCanRecover({ isActive, isHeld, url, events }: WebhookRow): void {
  if (!isActive) throw conflict('inactive', 'The webhook is disabled: set is_active to "1" first');
  if (isHeld) {
    throw conflict('is_held', 'A pull webhook cannot recover missed events: publish them again');
  }
  if (url === null) throw conflict('no_url', 'The webhook has no url: set url first');
  if (events.length === 0) throw conflict('no_events', 'The webhook has no events: set event_resource first');
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
  { baseUrl }: RecoveryDeps,
  request: Pick<ApiRequest, 'params' | 'principal' | 'now'>,
  since: Date,
): Promise<{ webhook: WebhookRow; row: RecoveryRow }> {
  const key = keyOf(request);
  const webhook = await lockWebhook(tx, key);
  if (webhook === undefined) throw notFound('webhook');
  checkCanRecover(webhook);
  const { shard, id: webhookId } = key;
  const { storeId, epoch } = webhook;
  const { now } = request;
  await stopOlder(tx, { shard, webhookId, epoch, now });
  await checkNoOpenRecovery(tx, webhook, baseUrl);
  const id = idOf(await nextNumber(tx), shard);
  await insertRecovery(tx, { shard, id, storeId, webhookId, epoch, since, now });
  const row = await findRecovery(tx, { shard, webhookId, id });
  if (row === undefined) throw new Error(`Recovery ${id} not found after its insert`);
  return { webhook, row };
}

async function recoveryOf(deps: RecoveryDeps, request: Pick<ApiRequest, 'params' | 'principal'>) {
  const webhook = await webhookOf(deps.sql, request);
  const id = parseId(request.params['recovery_id'] ?? '');
  const key = { shard: shardOf(webhook.id), webhookId: webhook.id };
  const row = id === undefined ? undefined : await findRecovery(deps.sql, { ...key, id });
  if (row === undefined) throw notFound('recovery');
  return { webhook, row };
}

const createRecover = (deps: RecoveryDeps): Operation =>
  beginning({
    title: 'Recover what was missed',
    summary:
      'Sends the events since a date that this webhook missed: those with neither a successful nor a pending delivery',
    input: recoverySchema,
    admit: async (request) => void (await webhookOf(deps.sql, request)),
    prepare: async ({ body, now }) => {
      const read = readSince(body, { now, retentionDays: deps.retentionDays });
      if ('fault' in read) throw invalid(read.fault);
      return read;
    },
    make: async (tx, request, { since }) => {
      const { webhook, row } = await openRecovery(tx, deps, request, since);
      const { baseUrl } = deps;
      return { document: recoveryDocument(row, webhook, baseUrl), location: addressOfRecovery(row, baseUrl) };
    },
  });

/**
 * Cancels a recovery; idempotent. The recovery stays readable, so this is not a DELETE, and its deliveries are still sent. Throws
 * a 409 if it had already ended otherwise.
 */
async function cancel(deps: RecoveryDeps, request: ApiRequest): Promise<Document> {
  const { webhook, row } = await recoveryOf(deps, request);
  request.unmodified(versionOf(row));
  if (isOpen(row)) await endRecovery(deps.sql, { shard: shardOf(webhook.id), id: row.id }, 'cancelled', request.now);
  const { row: after } = await recoveryOf(deps, request);
  if (after.state === 'cancelled') return recoveryDocument(after, webhook, deps.baseUrl);
  throw conflict('ended', 'The recovery has already ended');
}

export function createRecoveries(deps: RecoveryDeps): Record<'recover' | 'list' | 'read' | 'cancel', Operation> {
  return {
    recover: createRecover(deps),
    list: listing({
      summary: 'The recoveries of this webhook, newest first, paged',
      rel: 'recoveries',
      title: 'The recoveries of this webhook',
      properties: RECOVERY_PROPERTIES,
      handle: async (request) => {
        const webhook = await webhookOf(deps.sql, request);
        const { id: webhookId, timeZone } = webhook;
        const key = { shard: shardOf(webhookId), webhookId };
        const [rows, total] = await Promise.all([
          listRecoveries(deps.sql, key, request.listing),
          countRecoveries(deps.sql, key, request.listing),
        ]);
        const links = breadcrumbLinks(webhook, deps.baseUrl);
        const items = rows.map((row) => recoveryDocument(row, webhook, deps.baseUrl));
        return { path: addressOfRecoveries(webhookId, deps.baseUrl), items, total, links, timeZone };
      },
    }),
    read: guarded({
      summary: 'A recovery and its progress',
      handle: async (request) => {
        const { webhook, row } = await recoveryOf(deps, request);
        return { status: 200, document: recoveryDocument(row, webhook, deps.baseUrl) };
      },
    }),
    cancel: guarded({
      title: 'Cancel this recovery',
      isConditional: true,
      summary: 'Ends the recovery, which stays readable; deliveries that it has created are still sent',
      handle: async (request) => ({ status: 200, document: await cancel(deps, request) }),
    }),
  };
}
