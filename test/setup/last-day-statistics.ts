/** Inserts statistics of the last 24 hours: a webhook that works, and one that began to fail in the afternoon. */
import { emptyHistogram } from '#core/histogram.ts';
import { shardOf } from '#core/ids.ts';
import type { Inhabited } from './populated-app.ts';

const HOUR_MS = 3_600_000;

export async function passDay({ sql, webhooks, alpha, now }: Inhabited): Promise<void> {
  const add = (webhook: number | undefined, hoursAgo: number, outcome: string, attempts: number, bucket: number) => {
    const durations = emptyHistogram();
    durations[bucket] = Math.ceil(attempts * 0.8);
    durations[bucket + 2] = attempts - Math.ceil(attempts * 0.8);
    const hour = new Date(Math.floor(now().getTime() / HOUR_MS - hoursAgo) * HOUR_MS);
    return sql`
      insert into webhook_hour (shard, webhook_id, hour, outcome, attempts, durations)
      values (${shardOf(alpha)}, ${webhook ?? 0}, ${hour}, ${outcome}, ${attempts}, ${durations})`;
  };
  for (let ago = 1; ago < 24; ago += 1) {
    const count = Math.round(400 + 300 * Math.sin(ago / 4));
    await add(webhooks[0], ago, 'delivered', count, ago % 5 === 0 ? 3 : 2);
    if (ago > 7) await add(webhooks[1], ago, 'delivered', Math.round(count / 3), 4);
    else await add(webhooks[1], ago, 'refused', 30 + ago * 9, 5);
    if (ago === 3) await add(webhooks[1], ago, 'timed_out:answer', 42, 10);
  }
}
