/** Whether the database can be asked, and has the tables that this code writes. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '#core/clock.ts';
import type { Check } from '#core/health.ts';
import { versionsOf } from './migrate.ts';
import { transaction, type Sql } from './pool.ts';
import { isDiskFull } from './unavailable.ts';
import { useOf } from './use.ts';

const ANSWER_MS = 1_000;
/** One statement for all that ask meanwhile: whoever may ask for free must not make work by it. */
const KEPT_MS = 1_000;

/** 3 MB, written to a temporary file of the server. A read-only statement, which changes no table and writes no WAL. */
const SPILLED_ROWS = 100_000;

type Missing = Awaited<ReturnType<Check>>;

/** Returns a function that fails while the disk of the database is full; it asks after a statement was refused for that. */
const createSpaceCheck = (sql: Sql): (() => Promise<void>) => {
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
};

/**
 * `disk`: a statement was refused because the disk of the database is full, and there is no room yet. `database`: no answer within a second, be it that the server is away or that every connection is taken. `migrations`:
 * one that stands in the folder was not applied; those of newer code are no fault, as while one version replaces another.
 */
export const createDatabaseCheck = async (deps: { sql: Sql; clock: Clock; migrations: string }): Promise<Check> => {
  const { sql, clock } = deps;
  const checkSpace = createSpaceCheck(sql);
  const wanted = await versionsOf(deps.migrations);
  let asked: Promise<Missing> | undefined;
  let known: { missing: Missing; untilMs: number } | undefined;

  const ask = async (): Promise<Missing> => {
    try {
      const rows = await sql<{ version: number }[]>`select version from schema_migration`;
      const applied = new Set(rows.map(({ version }) => version));
      if (!wanted.every((version) => applied.has(version))) return 'migrations';
      await checkSpace();
      return undefined;
    } catch (error) {
      return isDiskFull(error) ? 'disk' : 'database';
    }
  };
  // A statement that hangs is the only one: those who ask meanwhile wait for it, each no longer than the time-out.
  const shared = (): Promise<Missing> =>
    (asked ??= ask().then((missing) => {
      asked = undefined;
      known = { missing, untilMs: clock.monotonicMs() + KEPT_MS };
      return missing;
    }));
  return async () => {
    if (known !== undefined && clock.monotonicMs() < known.untilMs) return known.missing;
    const patience = new AbortController();
    const late = delay(ANSWER_MS, 'database', { signal: patience.signal }).catch(() => 'database');
    const missing = await Promise.race([shared(), late]);
    patience.abort();
    return missing;
  };
};
