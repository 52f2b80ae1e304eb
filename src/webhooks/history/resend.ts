/** Sending one delivery again: the same event to the same webhook, as a delivery of its own that begins to count anew. */
import { Type } from 'typebox';
import { isTest } from '#catalog/sample.ts';
import type { Tx } from '#db/pool.ts';
import type { Committed } from '#events/publish/rows.ts';
import { findPending, insertResend } from '#events/replay/resend-sql.ts';
import { beginning } from '#http/creating.ts';
import type { ApiRequest, Operation } from '#http/operation.ts';
import { formatDate } from '#hypermedia/date.ts';
import { shardOf } from '#core/ids.ts';
import { notFound, Problem } from '#core/problem.ts';
import { keyOf, webhookOf, type WebhookDeps } from '../access.ts';
import { lockWebhook, type WebhookRow } from '../webhook-sql.ts';
import { addressOfDelivery, deliveryDocument } from './document.ts';
import type { DeliveryRow } from './history-sql.ts';
import { deliveryOf, deliveryWith } from './delivery.ts';

/** It needs to be told nothing. */
const resendSchema = Type.Object({}, { additionalProperties: false });

const conflict = (code: string, message: string, headers: Record<string, string> = {}): Problem =>
  new Problem(409, { code, message }, { headers });

/** Throws a 409 where nothing could be sent. */
const refuseIdle = ({ isActive, isHeld, url }: WebhookRow): void => {
  if (!isActive) throw conflict('inactive', 'The webhook is switched off: switch it on first, then send this again');
  if (url === null && !isHeld) throw conflict('no_url', 'The webhook has no url to send to: give it one first');
};

/** Some 10 ms, while nobody else gets at the webhook. Behind a backlog that is longer, one that comes twice is no worse than a retry. */
const PENDING_LOOKED_AT = 10_000;

/** Two at once would reach the endpoint twice. `Location` leads to the one that is pending. */
const refuseSecond = async (
  tx: Tx,
  webhook: WebhookRow,
  { asked, baseUrl }: { asked: DeliveryRow; baseUrl: string },
): Promise<void> => {
  const { id: webhookId, epoch, timeZone } = webhook;
  const wanted = { shard: shardOf(webhookId), webhookId, eventId: asked.eventId, epoch };
  const id = asked.status === 'pending' ? asked.id : await findPending(tx, wanted, PENDING_LOOKED_AT);
  if (id === undefined) return;
  const pending = await deliveryWith(tx, webhook, id);
  const next = pending?.dateNext ? `, and is tried next at ${formatDate(pending.dateNext, timeZone)}` : '';
  const Location = addressOfDelivery(id, webhook, baseUrl);
  throw conflict('already_pending', `This event is on its way to the webhook already${next}`, { Location });
};

const GONE = 'What the event carried was erased, or is older than events are kept: there is nothing to send any more';
const SAMPLE = 'This was a test of the webhook, which is sent once: send another one by its action "test"';

/** Under the lock of the webhook, which others who send again wait for, and who switches it off. */
const resend = async (
  tx: Tx,
  baseUrl: string,
  request: Pick<ApiRequest, 'params' | 'principal' | 'now'>,
): Promise<{ webhook: WebhookRow; made: Committed }> => {
  const webhook = await lockWebhook(tx, keyOf(request));
  if (webhook === undefined) throw notFound('webhook');
  const asked = await deliveryOf(tx, webhook, request);
  const { eventId, action } = asked;
  if (isTest(action)) throw conflict('is_test', SAMPLE);
  refuseIdle(webhook);
  await refuseSecond(tx, webhook, { asked, baseUrl });
  const { id: webhookId } = webhook;
  const made = await insertResend(tx, { shard: shardOf(webhookId), webhookId, eventId, now: request.now });
  if (made === undefined) throw conflict('event_gone', GONE);
  return { webhook, made };
};

export const createResend = ({ sql, baseUrl, onResent }: WebhookDeps): Operation =>
  beginning({
    title: 'Send it again',
    summary:
      'Sends the same event to the same webhook once more, also where it has arrived: a new delivery, whose attempts count from 1',
    input: resendSchema,
    admit: async (request) => void (await deliveryOf(sql, await webhookOf(sql, request), request)),
    prepare: async () => undefined,
    make: async (tx, request) => {
      const { webhook, made } = await resend(tx, baseUrl, request);
      const row = await deliveryWith(tx, webhook, made.deliveryId);
      if (row === undefined) throw new Error(`Delivery ${made.deliveryId} is not there after its insert`);
      return {
        document: deliveryDocument(row, webhook, baseUrl),
        location: addressOfDelivery(row.id, webhook, baseUrl),
        made: async () => onResent(made),
      };
    },
  });
