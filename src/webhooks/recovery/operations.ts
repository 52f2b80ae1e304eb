/** Recoveries of a webhook: asked for, watched, cancelled. The work is done by whoever delivers to the webhook. */
import type { Tx } from '#db/pool.ts';
import { endRecovery, findOpen, insertRecovery, stopOlder } from '#events/replay/recovery-sql.ts';
import { beginning } from '#http/creating.ts';
import { listing } from '#http/listing.ts';
import { guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import type { Document } from '#hypermedia/document.ts';
import { idOf, parseId, shardOf } from '#core/ids.ts';
import { invalid, notFound, Problem } from '#core/problem.ts';
import { keyOf, webhookOf, type WebhookDeps } from '../access.ts';
import { linksAbove } from '../document.ts';
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
import { readSince, recoverySchema } from './input.ts';

export type RecoveryDeps = Pick<WebhookDeps, 'sql' | 'baseUrl'> & { retentionDays: number };

const conflict = (code: string, message: string): Problem => new Problem(409, { code, message });

/** Throws a 409 where nothing that is recovered could be sent. */
const refuseIdle = ({ isActive, isHeld, url, events }: WebhookRow): void => {
  if (!isActive) throw conflict('inactive', 'The webhook is switched off: set is_active to "1" first');
  if (isHeld) {
    throw conflict('is_held', 'What a held webhook missed while it was switched off is gone: publish it again');
  }
  if (url === null) throw conflict('no_url', 'The webhook has no url: say where it sends to first');
  if (events.length === 0) throw conflict('no_events', 'The webhook is sent nothing: set event_resource first');
};

/** One at a time for each webhook. `Location` leads to the one that is open. */
const refuseSecond = async (tx: Tx, { id: webhookId }: WebhookRow, baseUrl: string): Promise<void> => {
  const id = await findOpen(tx, { shard: shardOf(webhookId), webhookId });
  if (id === undefined) return;
  const Location = addressOfRecovery({ id, webhookId }, baseUrl);
  const message = `A recovery of this webhook is under way: wait for its end, or POST to ${Location}/cancel`;
  throw new Problem(409, { code: 'already_open', message }, { headers: { Location } });
};

/** Under the lock of the webhook: whoever publishes later sees it as it is here. */
const open = async (
  tx: Tx,
  { baseUrl }: RecoveryDeps,
  request: Pick<ApiRequest, 'params' | 'principal' | 'now'>,
  since: Date,
): Promise<{ webhook: WebhookRow; row: RecoveryRow }> => {
  const key = keyOf(request);
  const webhook = await lockWebhook(tx, key);
  if (webhook === undefined) throw notFound('webhook');
  refuseIdle(webhook);
  const { shard, id: webhookId } = key;
  const { storeId, epoch } = webhook;
  const { now } = request;
  await stopOlder(tx, { shard, webhookId, epoch, now });
  await refuseSecond(tx, webhook, baseUrl);
  const id = idOf(await nextNumber(tx), shard);
  await insertRecovery(tx, { shard, id, storeId, webhookId, epoch, since, now });
  const row = await findRecovery(tx, { shard, webhookId, id });
  if (row === undefined) throw new Error(`Recovery ${id} is not there after its insert`);
  return { webhook, row };
};

const recoveryOf = async (deps: RecoveryDeps, request: Pick<ApiRequest, 'params' | 'principal'>) => {
  const webhook = await webhookOf(deps.sql, request);
  const id = parseId(request.params['recovery_id'] ?? '');
  const key = { shard: shardOf(webhook.id), webhookId: webhook.id };
  const row = id === undefined ? undefined : await findRecovery(deps.sql, { ...key, id });
  if (row === undefined) throw notFound('recovery');
  return { webhook, row };
};

const createRecover = (deps: RecoveryDeps): Operation =>
  beginning({
    title: 'Recover what was missed',
    summary:
      'Sends the events since a moment that this webhook has missed: those that neither arrived nor wait to be sent',
    input: recoverySchema,
    admit: async (request) => void (await webhookOf(deps.sql, request)),
    prepare: async ({ body, now }) => {
      const read = readSince(body, { now, retentionDays: deps.retentionDays });
      if ('fault' in read) throw invalid(read.fault);
      return read;
    },
    make: async (tx, request, { since }) => {
      const { webhook, row } = await open(tx, deps, request, since);
      const { baseUrl } = deps;
      return { document: recoveryDocument(row, webhook, baseUrl), location: addressOfRecovery(row, baseUrl) };
    },
  });

/**
 * It ends and stays to be read, so this is no DELETE; what it has made is sent. Throws a 409 where it had ended otherwise. To
 * cancel once more what is cancelled changes nothing.
 */
const cancel = async (deps: RecoveryDeps, request: ApiRequest): Promise<Document> => {
  const { webhook, row } = await recoveryOf(deps, request);
  request.unmodified(versionOf(row));
  if (isOpen(row)) await endRecovery(deps.sql, { shard: shardOf(webhook.id), id: row.id }, 'cancelled', request.now);
  const { row: after } = await recoveryOf(deps, request);
  if (after.state === 'cancelled') return recoveryDocument(after, webhook, deps.baseUrl);
  throw conflict('ended', 'The recovery has ended already: there is nothing to cancel');
};

export const createRecoveries = (deps: RecoveryDeps): Record<'recover' | 'list' | 'read' | 'cancel', Operation> => ({
  recover: createRecover(deps),
  list: listing({
    summary: 'The recoveries of this webhook, newest first, a page at a time',
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
      const links = linksAbove(webhook, deps.baseUrl);
      const items = rows.map((row) => recoveryDocument(row, webhook, deps.baseUrl));
      return { path: addressOfRecoveries(webhookId, deps.baseUrl), items, total, links, timeZone };
    },
  }),
  read: guarded({
    summary: 'How far a recovery is',
    handle: async (request) => {
      const { webhook, row } = await recoveryOf(deps, request);
      return { status: 200, document: recoveryDocument(row, webhook, deps.baseUrl) };
    },
  }),
  cancel: guarded({
    title: 'Cancel this recovery',
    isConditional: true,
    summary: 'Ends the recovery, which can still be read then; what it has made until now is sent',
    handle: async (request) => ({ status: 200, document: await cancel(deps, request) }),
  }),
});
