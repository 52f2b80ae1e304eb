/** The reason why a delivery is pending, as a pure function. */
import type { WebhookRow } from '../webhook-sql.ts';
import type { DeliveryRow } from './history-sql.ts';

type Waiting = Pick<DeliveryRow, 'status' | 'attempts' | 'dateNext'>;
type Webhook = Pick<WebhookRow, 'isHeld' | 'pausedUntil' | 'heldUntil' | 'consecutiveFailures'>;

const isAfter = (at: Date | null, now: Date): at is Date => at !== null && at > now;

/** Returns what a pending delivery waits for, namely the condition that ends last; null if it is not pending. */
export function waitsFor({ status, attempts, dateNext }: Waiting, webhook: Webhook, now: Date): string | null {
  if (status !== 'pending') return null;
  if (webhook.isHeld) return 'A listener that fetches it.';
  if (!isAfter(dateNext, now)) {
    return 'The deliveries before it, and the rate limit (rate_per_second).';
  }
  const { heldUntil, pausedUntil, consecutiveFailures } = webhook;
  if (!isAfter(heldUntil, now) || heldUntil < dateNext) {
    return attempts === 0 ? 'The time of its first attempt.' : `The time of attempt ${attempts + 1}.`;
  }
  if (pausedUntil?.getTime() === heldUntil.getTime()) {
    return 'The end of the pause that your endpoint asked for by Retry-After.';
  }
  return `The next probe of your endpoint: after ${consecutiveFailures} consecutive failures one delivery at a time is attempted.`;
}
