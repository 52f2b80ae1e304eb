/** Divides the shards of a test database among it and further databases of the test server. */
import { transaction, type DatabaseAddress, type Sql } from '#db/pool.ts';
import { createSealer } from '#db/seal.ts';
import { sealAddress, assignShards, readIdentity, upsertDatabase, writeHome } from '#shards/map-sql.ts';
import { HOME, shardsIn, type Range } from '#shards/map.ts';
import type { Cleanups } from './cleanups.ts';
import { singleDatabase, urlOf } from './database.ts';

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
      await writeHome(sql, identity);
      await upsertDatabase(tx, { id, name: `database ${id}`, ...other, address: sealAddress(sealer, { id, url }) });
      await assignShards(tx, shardsIn(range), id);
    }
    // Skips the seconds in which no store is made for another database.
    await tx`update shard_map set date_created = '-infinity'`;
  });
  for (const { sql, range = { first: 256, last: 256 } } of [{ sql: home, range: ofHome }, ...others])
    await sql`delete from shard_lease where shard not between ${range.first} and ${range.last}`;
}

/** `shards`: those of the home database first. `through` returns the url by which the application reaches another database. */
export async function divide(
  home: Sql,
  {
    shards: [ofHome, ...ofOthers],
    secretKey,
    through = async (address) => urlOf(address),
  }: { shards: readonly Range[]; secretKey: Buffer; through?: (address: DatabaseAddress) => Promise<string> },
  ends?: Cleanups,
): Promise<Sql[]> {
  const others: { sql: Sql; range: Range; url: string }[] = [];
  for (const range of ofOthers) {
    const { sql, address } = await singleDatabase(ends);
    others.push({ sql, range, url: await through(address) });
  }
  await writeMap(home, ofHome, { others, secretKey });
  return [home, ...others.map(({ sql }) => sql)];
}
