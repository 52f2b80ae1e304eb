/** The secrets of webhooks, as what is sealed anew when HALCYON_SECRET_KEY changes. */
import type { Sql } from '#db/pool.ts';
import type { Vault } from '#db/reseal.ts';
import { shardOf } from '#core/ids.ts';
import { sealedTo } from './access.ts';
import { countSealedOtherwise, listSealedOtherwise, renewSealed } from './vault-sql.ts';

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
    return rows.map(({ id, key, next, request }) => {
      return { id: String(id), boundTo: sealedTo(id), envelopes: [key, next, request] };
    });
  },
  replace: async (rows) => {
    const written = await renewSealed(
      sql,
      rows.map(({ id, envelopes, renewed }) => {
        const [key = null, next = null, request = null] = envelopes;
        const [keyAfter = null, nextAfter = null, requestAfter = null] = renewed;
        return { ...placeOf(id), key, next, request, keyAfter, nextAfter, requestAfter };
      }),
    );
    return written.map(String);
  },
});
