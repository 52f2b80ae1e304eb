/** What the checks stand on: the settings, and the way to the database where there is one. */
import type { Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import type { Config } from '#config/config.ts';

export type DoctorContext = {
  config: Config;
  clock: Clock;
  /** Goes the way that requests go: to `DATABASE_URL`. */
  sql: Sql;
  /** To PostgreSQL itself. The same as `sql` where only one is set. */
  direct: Sql;
};
