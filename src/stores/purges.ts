/** What is left of erased stores: their names in a list, once everything else is gone. */
import type { Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import { deleteEmptied } from './erase-sql.ts';

/** A publish that saw the store before it was erased may write once more; no request takes that long. */
const SETTLED_AFTER_MS = 3_600_000;

export const createStorePurges = ({ sql }: { sql: Sql }): readonly Purge[] => [
  {
    name: 'erased_stores',
    purge: (limit, now) => deleteEmptied(sql, new Date(now.getTime() - SETTLED_AFTER_MS), limit),
  },
];
