/** Divides the shards of a test database among it and further databases of the test server. */
import type { DatabaseAddress, Sql } from '#db/pool.ts';
import { transaction } from '#db/pool.ts';
import { createSealer } from '#db/seal.ts';
import { sealAddress } from '#shards/address.ts';
import { HOME, shardsIn, type Range } from '#shards/map.ts';
import { assignShards, readIdentity, upsertDatabase } from '#shards/map-sql.ts';
import type { Cleanups } from './cleanups.ts';
import { testDatabase } from './database.ts';

export function urlOf(address: DatabaseAddress): string {
  if (address.kind === 'url') return address.url;
  const { directory, user, password, database } = address;
  const url = new URL('postgres://localhost');
  Object.assign(url, { username: user, password, pathname: `/${database}` });
  url.searchParams.set('host', directory);
  return url.href;
}

/** Writes the map of shards into the home database, and the leases of each database. */
export async function writeMap(
  home: Sql,
  ofHome: Range | undefined,
  { others, secretKey }: { others: readonly { sql: Sql; range: Range; url: string }[]; secretKey: Buffer },
): Promise<void> {
  const sealer = createSealer(secretKey);
  const { identity } = await readIdentity(home);
  await transaction(home, async (tx) => {
    await upsertDatabase(tx, { id: HOME, name: 'home', identity, address: null });
    if (ofHome !== undefined) await assignShards(tx, shardsIn(ofHome), HOME);
    for (const [index, { sql, range, url }] of others.entries()) {
      const id = index + 1;
      const other = await readIdentity(sql);
      await upsertDatabase(tx, { id, name: `database ${id}`, ...other, address: sealAddress(sealer, id, url) });
      await assignShards(tx, shardsIn(range), id);
    }
  });
  for (const { sql, range = { first: 256, last: 256 } } of [{ sql: home, range: ofHome }, ...others])
    await sql`delete from shard_lease where shard not between ${range.first} and ${range.last}`;
}

/** `shards`: those of the home database first. */
export async function divide(
  home: Sql,
  { shards: [ofHome, ...ofOthers], secretKey }: { shards: readonly Range[]; secretKey: Buffer },
  ends?: Cleanups,
): Promise<Sql[]> {
  const others: { sql: Sql; range: Range; url: string }[] = [];
  for (const range of ofOthers) {
    const { sql, address } = await testDatabase(ends);
    // A clone of the template has the identity of the template.
    await sql`update database_identity set identity = gen_random_uuid()`;
    others.push({ sql, range, url: urlOf(address) });
  }
  await home`update database_identity set identity = gen_random_uuid()`;
  await writeMap(home, ofHome, { others, secretKey });
  return [home, ...others.map(({ sql }) => sql)];
}
