/** The addresses of databases in the map, which are sealed, and again when HALCYON_SECRET_KEY changes. */
import type { Vault, Sealer } from '#db/seal.ts';
import type { Sql } from '#db/pool.ts';
import { countSealedWithOtherKey, listSealedWithOtherKey, replaceAddress } from './map-sql.ts';
import type { MapDatabase } from './map.ts';

/** Returns the name that the sealed address of a database is bound to. */
const bindingOf = (id: number): string => `shard_database:${id}`;

export function sealAddress(sealer: Sealer, { id, url }: { id: number; url: string }): Buffer {
  return sealer.seal(url, bindingOf(id));
}

/** Returns the url of a database; undefined for the home database. Throws if no key opens it. */
export function openAddress(sealer: Sealer, { id, address }: Pick<MapDatabase, 'id' | 'address'>): string | undefined {
  return address === null ? undefined : sealer.open(address, bindingOf(id));
}

export function createAddressVault(home: Sql): Vault {
  return {
    name: 'addresses of databases',
    count: (keyId) => countSealedWithOtherKey(home, keyId),
    page: async ({ keyId, after = '0', limitRows }) => {
      const rows = await listSealedWithOtherKey(home, { keyId, after: Number(after), limitRows });
      return rows.map(({ id, address }) => ({ id: String(id), boundTo: bindingOf(id), envelopes: [address] }));
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
