/** Retry now: attempts pending deliveries at once, not at their due times or after the pause or the next probe of their webhook. */
import { Type } from 'typebox';
import { transaction, type Tx } from '#db/pool.ts';
import { accepting, type ApiRequest, type Operation } from '#http/operation.ts';
import { shardOf } from '#core/ids.ts';
import { conflict, notFound } from '#core/problem.ts';
import {
  CHANGE_SCOPES,
  documentFor,
  keyOf,
  requireSending,
  webhookOf,
  type Retry,
  type WebhookDeps,
} from './webhook-access.ts';
import { addressOfWebhook } from './webhook-document.ts';
import { deliveryOf, deliveryWith } from './history/delivery-details.ts';
import { addressOfDelivery, deliveryDocument } from './history/history-documents.ts';
import { lockWebhook, type WebhookRow } from './webhook-sql.ts';

const emptySchema = Type.Object({}, { additionalProperties: false });

/**
 * Returns what to retry: one delivery of the webhook, or all that are pending. `now`: read after the row of the webhook was locked,
 * because deliveries that became due meanwhile may be under way.
 */
export function retryOf({ id, epoch }: Pick<WebhookRow, 'id' | 'epoch'>, now: Date, deliveryId?: number): Retry {
  return { shard: shardOf(id), webhookId: id, epoch, deliveryId, now };
}

/** Returns the locked webhook. Throws a 404 or 403 like `sendingWebhookOf`, and a 409 if no worker sends its deliveries. */
async function lockSending(tx: Tx, request: Pick<ApiRequest, 'params' | 'principal'>): Promise<WebhookRow> {
  const webhook = await lockWebhook(tx, keyOf(request));
  if (webhook === undefined) throw notFound('webhook');
  requireSending(request.principal, webhook);
  if (webhook.isHeld) throw conflict('is_held', 'The deliveries of a pull webhook wait for its listener');
  if (!webhook.isActive) throw conflict('inactive', 'The webhook is disabled: enable it first');
  return webhook;
}

/** Retries one pending delivery; the attempt is charged. */
const createRetryDelivery = (deps: WebhookDeps): Operation =>
  accepting({
    title: 'Retry now',
    summary: 'Attempts this pending delivery at once, before its next attempt is due; the attempt counts',
    scopes: CHANGE_SCOPES,
    statuses: [202],
    input: emptySchema,
    admit: async (request) => void (await webhookOf(deps.sql, request)),
    handle: async (request) => {
      const { webhook, delivery } = await transaction(deps.sql, async (tx) => {
        const locked = await lockSending(tx, request);
        const { id, status } = await deliveryOf(tx, locked, request);
        if (status !== 'pending') throw conflict('not_pending', 'The delivery has ended: send it again by resend');
        await deps.retryNow(tx, retryOf(locked, deps.clock.now(), id));
        const retried = await deliveryWith(tx, { ...locked, heldUntil: null }, id);
        if (retried === undefined) throw new Error(`Delivery ${id} not found after its update`);
        return { webhook: locked, delivery: retried };
      });
      const location = addressOfDelivery(delivery.id, webhook, deps.config.baseUrl);
      const document = deliveryDocument(delivery, webhook, deps.config.baseUrl);
      return { status: 202, document, location, next: location, done: 'retried' };
    },
  });

/** Retries all pending deliveries of a webhook. */
const createRetryPending = (deps: WebhookDeps): Operation =>
  accepting({
    title: 'Retry pending deliveries now',
    summary: 'Attempts all pending deliveries at once, before their next attempts are due; the attempts count',
    scopes: CHANGE_SCOPES,
    statuses: [202],
    input: emptySchema,
    admit: async (request) => void (await webhookOf(deps.sql, request)),
    handle: async (request) => {
      const webhook = await transaction(deps.sql, async (tx) => {
        const locked = await lockSending(tx, request);
        await deps.retryNow(tx, retryOf(locked, deps.clock.now()));
        return { ...locked, pausedUntil: null, heldUntil: null };
      });
      const location = addressOfWebhook(webhook.id, deps.config.baseUrl);
      return { status: 202, document: documentFor(deps, webhook, request), location, next: location, done: 'retried' };
    },
  });

export function createRetries(deps: WebhookDeps): Record<'retryDelivery' | 'retryPending', Operation> {
  return { retryDelivery: createRetryDelivery(deps), retryPending: createRetryPending(deps) };
}
