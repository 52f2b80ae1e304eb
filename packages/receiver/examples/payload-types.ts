/** Works on verified deliveries with the types of their bodies, which follow from the event. */
import type { Delivery, WebhookEvent } from '@halcyon/receiver';

/** Returns a line for a log. */
export function describe(delivery: Delivery): string {
  const { event, payload } = { event: delivery.event, payload: delivery.json() } as WebhookEvent;
  if (event === 'transaction/created') {
    const items = payload._embedded?.['svc:items'];
    return `transaction ${payload.id}: ${Array.isArray(items) ? items.length : 0} items, ${payload._links.self.href}`;
  }
  if (event === 'changelog/created') return `${payload.resource} ${payload.action} by ${payload.actor}`;
  if (event === 'subscription_mrr_snapshot/created')
    return payload.currencies.map(({ currency_code: code, mrr }) => `${code} ${mrr.toFixed(2)}`).join(', ');
  return `${event} ${payload.id}`;
}
