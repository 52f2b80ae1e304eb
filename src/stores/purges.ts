/** Purge of the records of erased stores, after all their other rows are deleted. */
import type { Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import { deleteEmptied } from './erase-sql.ts';

/** A publish that read the store before its erasure may still write; no request takes longer than this. */
const REQUEST_MAX_MS = 3_600_000;

export function createStorePurges({ sql }: { sql: Sql }): readonly Purge[] {
  return [
    {
      name: 'erased_stores',
      purge: (limit, now) => deleteEmptied(sql, new Date(now.getTime() - REQUEST_MAX_MS), limit),
    },
  ];
}
