/** The addresses of databases in the map, which are sealed again when HALCYON_SECRET_KEY changes. */
import type { Vault } from '#db/reseal.ts';
import type { Sql } from '#db/pool.ts';
import { addressBinding } from './adopt.ts';
import { countSealedWithOtherKey, listSealedWithOtherKey, replaceAddress } from './map-sql.ts';

export function createAddressVault(home: Sql): Vault {
  return {
    name: 'addresses of databases',
    count: (keyId) => countSealedWithOtherKey(home, keyId),
    page: async ({ keyId, after = '0', limitRows }) => {
      const rows = await listSealedWithOtherKey(home, { keyId, after: Number(after), limitRows });
      return rows.map(({ id, address }) => ({ id: String(id), boundTo: addressBinding(id), envelopes: [address] }));
    },
    replace: async (rows) => {
      const written: string[] = [];
      for (const {
        id,
        envelopes: [before = null],
        renewed: [after = null],
      } of rows)
        if (await replaceAddress(home, { id: Number(id), before, after })) written.push(id);
      return written;
    },
  };
}
