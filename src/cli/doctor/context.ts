/** The input of the checks that need a database. */
import type { Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import type { Config } from '#config/config.ts';

export type DoctorContext = {
  config: Config;
  clock: Clock;
  /** Connects to `DATABASE_URL`, like requests. */
  sql: Sql;
  /** Connects to PostgreSQL itself; equals `sql` without `DATABASE_DIRECT_URL`. */
  direct: Sql;
};
