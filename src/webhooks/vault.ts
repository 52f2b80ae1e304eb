/** The keys of webhooks, as what is sealed anew when HALCYON_SECRET_KEY changes. */
import type { Sql } from '#db/pool.ts';
import type { Vault } from '#db/reseal.ts';
import { shardOf } from '#core/ids.ts';
import { sealedTo } from './access.ts';
import { countSealedOtherwise, listSealedOtherwise, renewKeys } from './vault-sql.ts';

const placeOf = (text: string): { shard: number; id: number } => {
  const id = Number(text);
  return { shard: shardOf(id), id };
};

/** Before the first of them all. */
const START = { shard: -1, id: 0 };

export const createKeyVault = (sql: Sql): Vault => ({
  name: 'webhooks',
  count: (keyId) => countSealedOtherwise(sql, keyId),
  page: async ({ keyId, after, limitRows }) => {
    const place = after === undefined ? START : placeOf(after);
    const rows = await listSealedOtherwise(sql, { keyId, after: place, limitRows });
    return rows.map(({ id, key, next }) => ({ id: String(id), boundTo: sealedTo(id), envelopes: [key, next] }));
  },
  replace: async (rows) => {
    const written = await renewKeys(
      sql,
      rows.map(({ id, envelopes: [key = null, next = null], renewed: [keyAfter = null, nextAfter = null] }) => {
        return { ...placeOf(id), key, next, keyAfter, nextAfter };
      }),
    );
    return written.map(String);
  },
});
