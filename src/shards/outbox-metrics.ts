/** Metrics of the outbox: changes of the home database that other databases have not applied yet. */
import { Gauge, type Registry } from 'prom-client';
import type { Clock } from '#core/clock.ts';
import type { Sql } from '#db/pool.ts';
import { createCachedRead } from '#metrics/cached-read.ts';
import type { ShardMap } from './map.ts';
import { readWaiting } from './outbox-sql.ts';

/** Registers the metrics. Each process reports the same state, so those of several processes are not added up. */
export function observeOutbox(
  registry: Registry,
  { home, clock, map }: { home: Sql; clock: Clock; map: () => ShardMap },
): void {
  const read = createCachedRead(() => readWaiting(home), clock);
  const register = (
    name: string,
    help: string,
    valueOf: (waiting: { changes: number; oldestSeconds: number }) => number,
  ) =>
    registry.registerMetric(
      new Gauge({
        name,
        help,
        labelNames: ['database'],
        registers: [registry],
        aggregator: 'max',
        async collect() {
          this.reset();
          const others = map().databases.filter(({ address }) => address !== null);
          const waiting = others.length === 0 ? [] : await read();
          for (const { id, name: database } of others) {
            const found = waiting?.find((one) => one.database === id);
            if (waiting !== undefined) this.set({ database }, found === undefined ? 0 : valueOf(found));
          }
        },
      }),
    );
  register(
    'halcyon_outbox_changes',
    'Changes of the home database that another database has not applied',
    ({ changes }) => changes,
  );
  register(
    'halcyon_outbox_oldest_seconds',
    'Age of the oldest change that another database has not applied',
    ({ oldestSeconds }) => oldestSeconds,
  );
}
