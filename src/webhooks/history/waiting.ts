/** What a delivery that is pending waits for: pure. */
import type { WebhookRow } from '../webhook-sql.ts';
import type { DeliveryRow } from './history-sql.ts';

type Waiting = Pick<DeliveryRow, 'status' | 'attempts' | 'dateNext'>;
type Webhook = Pick<WebhookRow, 'isHeld' | 'pausedUntil' | 'heldUntil' | 'consecutiveFailures'>;

const isAfter = (at: Date | null, now: Date): at is Date => at !== null && at > now;

/** Null where nothing is pending. Whatever ends last is what it waits for. */
export const waitsFor = ({ status, attempts, dateNext }: Waiting, webhook: Webhook, now: Date): string | null => {
  if (status !== 'pending') return null;
  if (webhook.isHeld) return 'A listener, which fetches it.';
  if (!isAfter(dateNext, now)) {
    return 'Its turn, which comes when those before it were answered, and no faster than rate_per_second allows.';
  }
  const { heldUntil, pausedUntil, consecutiveFailures } = webhook;
  if (!isAfter(heldUntil, now) || heldUntil < dateNext) {
    return attempts === 0 ? 'The time of its first attempt.' : `The time of attempt ${attempts + 1}.`;
  }
  if (pausedUntil?.getTime() === heldUntil.getTime()) {
    return 'The end of the pause that your endpoint asked for by Retry-After.';
  }
  return `The next try of your endpoint: after ${consecutiveFailures} failures in a row one delivery at a time is tried.`;
};
