/** The database, its retention, and the key that seals secrets. */
import { anyText, database, NONE, secretKey, whole } from './kind.ts';

export const KEEPING = {
  DATABASE_URL: database(
    'the embedded one',
    'a PostgreSQL 15 or newer; without it an embedded one runs under `HALCYON_DATA`, with demo data',
  ),
  DATABASE_DIRECT_URL: database(
    'as `DATABASE_URL`',
    'PostgreSQL itself, where `DATABASE_URL` leads to [PgBouncer](#pgbouncer)',
  ),
  DATABASE_CONNECTIONS: whole(
    10,
    [2, 500],
    'connections of one process in its pool; up to five more for its heartbeat, for words from others, and for work that is done under a lock',
  ),
  HALCYON_SECRET_KEY: secretKey(
    'generated with the embedded database',
    'seals secrets at rest. Required beside `DATABASE_URL`; every process needs the same, and one that has another than the database was sealed with does not start',
  ),
  HALCYON_SECRET_KEY_OTHER: secretKey(
    NONE,
    'a second key that opens what it sealed, and seals nothing: while the key is [changed](#change-the-key), the new one before the change and the old one after it',
  ),
  HALCYON_DATA: anyText('./.halcyon', 'a folder', 'embedded database, generated key, demo credentials'),
  RETENTION_DAYS: whole(
    30,
    [2, 3_650],
    'events, finished deliveries and attempts older than this are [dropped by the day](#what-is-kept-and-for-how-long)',
  ),
};
