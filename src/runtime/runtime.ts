/** What each part of a process may use. A part takes the `Runtime` as it is, or declares the members that it uses by `Pick`. */
import type { LookupAddress } from 'node:dns';
import type { Config } from '#config/config.ts';
import type { Clock } from '#core/clock.ts';
import type { Pace } from '#core/lifecycle.ts';
import type { Keys } from '#core/keys.ts';
import type { Log } from '#core/log.ts';
import type { Sql } from '#db/pool.ts';
import type { Sealer } from '#db/seal.ts';
import type { Mailer } from '#mail/mailer.ts';

/** The settings without the secret keys and the mail server, in whose place parts have `derive`, `sealer` and `mailer`. */
export type RuntimeConfig = Omit<Config, 'secretKeys' | 'mail'>;

export type Runtime = {
  config: RuntimeConfig;
  clock: Clock;
  pace: Pace;
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

/** A target of a request; an IPv6 address has no brackets. */
export type Destination = { hostname: string; port: number };

export type Guard = {
  /** Returns the checked addresses of the host, at least one. Rejects with `BlockedAddress`, or with the error of the look-up. */
  addressesOf: (destination: Destination) => Promise<readonly LookupAddress[]>;
  /** Returns why a webhook may not have this URL; null if it may. A name that does not resolve is accepted. */
  checkUrl: (url: string) => Promise<string | null>;
};
