/** The secrets of authenticator apps, which are sealed again when HALCYON_SECRET_KEY changes. */
import type { Sql } from '#db/pool.ts';
import type { Vault } from '#db/reseal.ts';
import { countSealedWithOtherKey, listSealedWithOtherKey, replaceSecrets } from './factors-sql.ts';
import { secretBoundTo } from './authenticator-app.ts';

export function createAppVault(sql: Sql): Vault {
  return {
    name: 'authenticator apps',
    count: (keyId) => countSealedWithOtherKey(sql, keyId),
    page: async ({ keyId, after = '0', limitRows }) => {
      const rows = await listSealedWithOtherKey(sql, { keyId, after: Number(after), limitRows });
      return rows.map(({ userId, secret }) => {
        return { id: String(userId), boundTo: secretBoundTo(userId), envelopes: [secret] };
      });
    },
    replace: async (rows) => {
      const written = await replaceSecrets(
        sql,
        rows.map(({ id, envelopes: [before = null], renewed: [after = null] }) => {
          return { userId: Number(id), before, after };
        }),
      );
      return written.map(String);
    },
  };
}
