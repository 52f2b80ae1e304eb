/**
 * Deletes expired rows in small batches with pauses, so that concurrent statements do not wait. One process at a time does it. Each
 * database deletes its own rows of stores, and the home database those of accounts. docs/operating.md has everything that expires as a
 * table.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Counter, Histogram, type Registry } from '@prometheus-io/client';
import { LOCKS, tryUnderLock } from '#db/advisory-lock.ts';
import type { Sql } from '#db/pool.ts';
import type { Purge } from '#db/purges.ts';
import { untilStopped, type Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { createAccountPurges } from '#identity/accounts/accounts-sql.ts';
import type { Config } from '#config/config.ts';
import { createDeliveryPurges } from '#delivery/delivery-purges.ts';
import { blankAnswers } from '#delivery/record/record-sql.ts';
import { type EventCaches, createErasurePurges } from '#events/erase/erasure.ts';
import { createErasedStorePurges, createEventPurges, TABLES_OF_STORES } from '#events/event-purges-sql.ts';
import { createIdempotencyPurges } from '#http/idempotency.ts';
import type { RevocationEffects } from '#identity/oauth/grants.ts';
import { createOAuthPurges } from '#identity/oauth/oauth-purges-sql.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { EachDatabase } from '#shards/map.ts';
import { createStorePurges, createInvitationPurges } from '#stores/stores-sql.ts';
import { createUnattendedPurge } from '#webhooks/listener-operations.ts';
import { createDeclarationPurges, createWebhookPurges, WEBHOOKS_OF_STORES } from '#webhooks/webhook-purges-sql.ts';
import type { InternalEvents } from './publishing.ts';

type PurgesDeps = Pick<InternalEvents, 'changelog' | 'announceChanges'> & {
  config: Pick<Config, 'housekeeping' | 'database' | 'pull'>;
  sql: Sql;
  log: Log;
  caches: EventCaches;
};

export function purgesOfStores({ config, sql, log, caches, changelog, announceChanges }: PurgesDeps): readonly Purge[] {
  const { housekeeping, database, pull } = config;
  return [
    ...createIdempotencyPurges({ sql }),
    ...createErasurePurges({ sql, log, caches, blankAnswers }),
    ...createEventPurges({ sql, retentionDays: database.retentionDays }),
    ...createErasedStorePurges({ sql }),
    ...createWebhookPurges({ sql, retentionDays: database.retentionDays }),
    createUnattendedPurge({ sql, changelog, announce: announceChanges, ...pull }),
    ...createDeliveryPurges({ sql, hoursKeptDays: housekeeping.webhookHoursKeptDays }),
    // After the rows of erased stores.
    ...createStorePurges({ sql, tables: [...TABLES_OF_STORES, WEBHOOKS_OF_STORES] }),
  ];
}

/** `ofStores`: the purges of stores that are in the home database. */
export function purgesOfHome({
  config,
  sql,
  each,
  ofStores,
  ...effects
}: Pick<PurgesDeps, 'config' | 'sql'> &
  RevocationEffects & { each: EachDatabase; ofStores: readonly Purge[] }): Purge[] {
  return [
    ...createOAuthPurges({ sql, config }, effects),
    ...ofStores,
    ...createDeclarationPurges({ sql, each }),
    ...createInvitationPurges({ sql }),
    ...createAccountPurges({ sql, auditKeptDays: config.housekeeping.auditKeptDays }),
  ];
}

const DURATION_BUCKETS_SECONDS = [0.01, 0.1, 1, 10, 60, 600];

function createMetrics(registry: Registry, purges: readonly Purge[]) {
  const purged = new Counter({
    name: 'halcyon_purged_rows_total',
    help: 'Expired rows deleted',
    labelNames: ['what'],
    registers: [registry],
  });
  // Counters start at 0: a missing counter looks like a purge that does not run.
  for (const { name } of purges) purged.inc({ what: name }, 0);
  const seconds = new Histogram({
    name: 'halcyon_housekeeping_duration_seconds',
    help: 'Duration of a retention round',
    buckets: DURATION_BUCKETS_SECONDS,
    registers: [registry],
  });
  return { purged, seconds };
}

/** Resolves early if the signal is aborted. */
const pause = (ms: number, signal: AbortSignal): Promise<void> => delay(ms, undefined, { signal }).catch(() => {});

/** Runs a round every `everyMs`, the first after that time. `stop` waits only for the batch that is running. */
export function startRetention(
  { direct, clock, pace, log }: Pick<Runtime, 'direct' | 'clock' | 'pace' | 'log'>,
  settings: Readonly<Record<'everyMs' | 'batchRows' | 'pauseMs', number>>,
  { registry, purges }: { registry: Registry; purges: readonly Purge[] },
): Running {
  const { purged, seconds } = createMetrics(registry, purges);

  const deleteExpired = async ({ name, purge }: Purge, signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      const rows = await purge(settings.batchRows, clock.now());
      purged.inc({ what: name }, rows);
      if (rows < settings.batchRows) return;
      await pause(settings.pauseMs, signal);
    }
  };
  const round = async (signal: AbortSignal): Promise<void> => {
    const startedMs = clock.monotonicMs();
    for (const purge of purges) {
      // A failing purge must not block the others.
      await deleteExpired(purge, signal).catch((error: unknown) =>
        log.error({ err: error, what: purge.name }, 'deleting expired rows failed'),
      );
    }
    seconds.observe((clock.monotonicMs() - startedMs) / 1_000);
  };
  const run = (signal: AbortSignal) =>
    tryUnderLock(direct, LOCKS.retention, () => round(signal)).catch((error: unknown) =>
      log.error({ err: error }, 'retention round failed to start; retrying'),
    );
  return untilStopped((signal) => pace.repeat(settings.everyMs, () => run(signal), signal));
}
