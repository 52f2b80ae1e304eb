/** The database, the retention of its data, and the keys that encrypt secrets in it. */
import { anyText, database, databasesOfShards, NONE, secretKey, whole } from './kind.ts';

export const KEEPING = {
  DATABASE_URL: database(
    'the embedded one',
    'PostgreSQL 15 or newer. Without this setting an embedded PostgreSQL runs under `HALCYON_DATA`, with demo data',
  ),
  DATABASE_DIRECT_URL: database(
    'as `DATABASE_URL`',
    'URL of PostgreSQL itself; needed if `DATABASE_URL` is [PgBouncer](#pgbouncer)',
  ),
  DATABASE_CONNECTIONS: whole(
    10,
    [2, 500],
    'size of the connection pool of one process; with [several](#processes) at most three quarters of the connections that PostgreSQL allows are used. A process opens up to six more, for its heartbeat, for LISTEN, for jobs that hold a session lock, and with several databases to watch each',
  ),
  SHARD_DATABASES: databasesOfShards(
    'which database owns which of the 256 shards: [several databases](#several-databases). Needs `DATABASE_URL`, the home database; a range with the same URL belongs to it. Unset: the home database owns all shards, or those of the map that it has',
  ),
  HALCYON_SECRET_KEY: secretKey(
    'generated with the embedded database',
    'key that encrypts secrets in the database. Required with `DATABASE_URL`. Every process needs the same key: a process with another key than that of the database does not start',
  ),
  HALCYON_SECRET_KEY_OTHER: secretKey(
    NONE,
    'second key, used only for decryption while the key is [changed](#change-the-key): the new key before the change, the old key after it',
  ),
  HALCYON_DATA: anyText(
    './.halcyon',
    'a folder',
    'folder of the embedded database, the generated key and the demo credentials',
  ),
  HOME_OUTAGE_SECONDS: whole(
    0,
    [0, 600],
    'how long tokens are accepted that this process has checked before, while the home database is not available, so that [stores in other databases](#several-databases) can still be used. Off by default: a process that is cut off from a home database that works for others accepts a token that was revoked meanwhile. 60 bridges a promotion of a standby',
  ),
  RETENTION_DAYS: whole(
    30,
    [2, 3_650],
    'retention of events, finished deliveries and attempts, [dropped per day](#what-is-kept-and-for-how-long)',
  ),
};
