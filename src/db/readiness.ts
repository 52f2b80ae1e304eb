/** The readiness check of the database: it responds, accepts writes, has all migrations and free disk space. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '#core/clock.ts';
import type { Check } from '#core/lifecycle.ts';
import { versionsOf } from './migrate.ts';
import { transaction, useOf, type Sql } from './pool.ts';
import { isDiskFull } from './unavailable.ts';

const ANSWER_MS = 1_000;
/** The result is cached, because unauthenticated callers must not cause a statement each. */
const CACHED_MS = 1_000;

/** 3 MB in a temporary file of the server. The statement is read-only: it changes no table and writes no WAL. */
const SPILLED_ROWS = 100_000;

type Missing = Awaited<ReturnType<Check>>;

/** Returns a function that rejects while the disk of the database is full. It sends a statement only after one was refused for that. */
function createSpaceCheck(sql: Sql): () => Promise<void> {
  let checked = 0;
  return async () => {
    const { refusedForSpace } = useOf(sql);
    if (refusedForSpace === checked) return;
    await transaction(
      sql,
      async (tx) => {
        await tx`select set_config('work_mem', '64kB', true)`;
        await tx`select count(*) from generate_series(1, ${SPILLED_ROWS}::int)`;
      },
      'read only',
    );
    checked = refusedForSpace;
  };
}

/**
 * Returns the check. `disk`: the disk of the database is full. `database`: no response within a second, because the server is
 * unavailable or all connections are in use. `writes`: the server only reads. `migrations`: a file of the folder is not applied; additional migrations of newer
 * code are accepted, because versions overlap during an upgrade.
 */
export async function createDatabaseCheck(deps: { sql: Sql; clock: Clock; migrations: string }): Promise<Check> {
  const { sql, clock } = deps;
  const checkSpace = createSpaceCheck(sql);
  const required = await versionsOf(deps.migrations);
  let running: Promise<Missing> | undefined;
  let cached: { missing: Missing; untilMs: number } | undefined;

  const check = async (): Promise<Missing> => {
    try {
      const rows = await sql<{ version: number; isReadOnly: boolean }[]>`
        select version, current_setting('transaction_read_only') = 'on' as "isReadOnly" from schema_migration`;
      const applied = new Set(rows.map(({ version }) => version));
      if (!required.every((version) => applied.has(version))) return 'migrations';
      // On a standby `transaction_read_only` is always on.
      if (rows[0]?.isReadOnly === true) return 'writes';
      await checkSpace();
      return undefined;
    } catch (error) {
      return isDiskFull(error) ? 'disk' : 'database';
    }
  };
  // Concurrent callers share one statement, each for at most the time-out.
  const shared = (): Promise<Missing> =>
    (running ??= check().then((missing) => {
      running = undefined;
      cached = { missing, untilMs: clock.monotonicMs() + CACHED_MS };
      return missing;
    }));
  return async () => {
    if (cached !== undefined && clock.monotonicMs() < cached.untilMs) return cached.missing;
    const timer = new AbortController();
    const timeout = delay(ANSWER_MS, 'database', { signal: timer.signal }).catch(() => 'database');
    const missing = await Promise.race([shared(), timeout]);
    timer.abort();
    return missing;
  };
}
