/** Seals request secrets that an older version stored in cleartext, while the webhooks stay in use. */
import type { Sealer } from '#db/seal.ts';
import type { Sql } from '#db/pool.ts';
import type { Purge } from '#db/purges.ts';
import { openRequest, sealRequest } from './access.ts';
import { listCleartext, sealCleartext } from './vault-sql.ts';

/** Creates the purge that seals cleartext secrets. Locked or changed rows are skipped until the next run. */
export function createCleartextSealing({ sql, sealer }: { sql: Sql; sealer: Sealer }): Purge {
  return {
    name: 'clear_requests',
    keptMs: 0,
    purge: async (limit) => {
      let sealed = 0;
      for (const row of await listCleartext(sql, limit)) {
        const opened = openRequest({ sealer }, row);
        // Sealed values of the row cannot be decrypted now: keep them, the key may be restored.
        if (Object.values(opened.headers).includes(null)) continue;
        sealed += await sealCleartext(sql, row, sealRequest({ sealer }, row.id, opened));
      }
      return sealed;
    },
  };
}
