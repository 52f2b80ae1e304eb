/** The metrics and the readiness of `halcyon relay`. */
import { Counter, Gauge, Registry } from 'prom-client';
import type { Clock } from '#core/clock.ts';
import { createHealth } from '#core/health.ts';
import type { Running } from '#core/lifecycle.ts';
import { createCachedRead } from '#metrics/database.ts';
import { serveMetrics } from '#metrics/metrics-server.ts';
import type { Relay } from './relay-run.ts';
import { WAITING_ROWS_MAX } from './relay-source.ts';

/** Starts the listener. The relay is ready if it has the lock of the table, and the server has published the last rows. */
export async function serveRelayMetrics(
  relay: Relay,
  { host, port, clock }: { host: string; port: number; clock: Clock },
): Promise<Running> {
  const registry = new Registry();
  const registers = [registry];
  const counter = (name: string, help: string, read: () => number) =>
    new Counter({
      name,
      help,
      registers,
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  // Without a value is better than with an old one, which would look as if the relay worked.
  const gauge = (name: string, help: string, read: () => Promise<number | undefined>) =>
    new Gauge({
      name,
      help,
      registers,
      async collect() {
        const value = await read();
        if (value === undefined) this.remove();
        else this.set(value);
      },
    });
  const lag = createCachedRead(async () => relay.source?.lag(), clock);
  gauge(
    'halcyon_relay_rows_waiting',
    `Rows in the outbox table, of which ${WAITING_ROWS_MAX} are counted`,
    async () => (await lag())?.rows,
  );
  gauge('halcyon_relay_oldest_row_seconds', 'Age of the oldest row', async () => (await lag())?.oldestSeconds);
  gauge(
    'halcyon_relay_last_error_timestamp_seconds',
    'When the database or the server was last unavailable',
    async () => (relay.lastError === undefined ? undefined : relay.lastError.getTime() / 1000),
  );
  counter('halcyon_relay_published_total', 'Rows that were published and deleted', () => relay.published);
  counter('halcyon_relay_refused_total', 'Rows that were moved to the table of dead letters', () => relay.refused);
  const health = createHealth(
    (['outbox', 'server'] as const).map((part) => () => (relay.missing.has(part) ? part : undefined)),
  );
  health.started();
  return serveMetrics({ registry, health, host, port });
}
