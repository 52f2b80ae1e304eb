/** What each part of a process may use. A part takes the `Runtime` as it is, or declares the members that it uses by `Pick`. */
import type { Config } from '#config/config.ts';
import type { Clock } from '#core/clock.ts';
import type { Guard } from '#core/guard.ts';
import type { Keys } from '#core/keys.ts';
import type { Log } from '#core/log.ts';
import type { Sql } from '#db/pool.ts';
import type { Sealer } from '#db/seal.ts';
import type { Mailer } from '#mail/mail.ts';

export type Runtime = {
  config: Config;
  clock: Clock;
  /** Uniform in [0, 1), as `Math.random`. */
  random: () => number;
  log: Log;
  /** The database of the part: that of its stores, otherwise the home database. */
  sql: Sql;
  /** A connection of the same database without a pooler, for session features: locks that outlive a transaction, LISTEN. */
  direct: Sql;
  sealer: Sealer;
  /** Undefined if the operator has configured no mail. */
  mailer: Mailer | undefined;
  guard: Guard;
  /** Returns the keys of a purpose, 32 bytes each. */
  derive: (purpose: string) => Keys;
};
