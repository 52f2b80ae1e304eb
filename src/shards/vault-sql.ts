/** The statements that seal the addresses of databases again. */
import type { Queryable } from '#db/pool.ts';

/** Counts the addresses that are sealed with another key than the one with this id. */
export async function countSealedWithOtherKey(home: Queryable, keyId: Buffer): Promise<number> {
  const [row] = await home<{ n: number }[]>`
    select count(*) as n from shard_database where substring(address from 2 for 4) <> ${keyId}`;
  return row?.n ?? 0;
}

export function listSealedWithOtherKey(
  home: Queryable,
  { keyId, after, limitRows }: { keyId: Buffer; after: number; limitRows: number },
): Promise<{ id: number; address: Buffer }[]> {
  return home<{ id: number; address: Buffer }[]>`
    select id, address from shard_database
    where id > ${after} and substring(address from 2 for 4) <> ${keyId}
    order by id limit ${limitRows}`;
}

/** Replaces an address that is unchanged since it was read; returns whether it was. */
export async function replaceAddress(
  home: Queryable,
  { id, before, after }: { id: number; before: Buffer | null; after: Buffer | null },
): Promise<boolean> {
  const rows = await home<{ id: number }[]>`
    update shard_database set address = ${after} where id = ${id} and address = ${before} returning id`;
  return rows.length > 0;
}
