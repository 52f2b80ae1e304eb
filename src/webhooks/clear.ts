/** Seals the secrets of requests that were written before an upgrade, beside those who read, change and send. */
import type { Sealer } from '#db/seal.ts';
import type { Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import { openedRequest, sealedRequest } from './access.ts';
import { listClear, sealClear } from './vault-sql.ts';

/** Locked or changed rows are left to the next round. */
export const createSealing = ({ sql, sealer }: { sql: Sql; sealer: Sealer }): Purge => ({
  name: 'clear_requests',
  purge: async (limit) => {
    let sealed = 0;
    for (const row of await listClear(sql, limit)) {
      const opened = openedRequest({ sealer }, row);
      // What the row has sealed beside it cannot be opened: the key may come back.
      if (Object.values(opened.headers).includes(null)) continue;
      sealed += await sealClear(sql, row, sealedRequest({ sealer }, row.id, opened));
    }
    return sealed;
  },
});
