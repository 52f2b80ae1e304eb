/** Locks the row of a resource in a transaction, prints that, and keeps the lock until it is killed. */
import { openPool, type DatabaseAddress } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';

const { ADDRESS = '', STORE = '', RESOURCE = '' } = process.env;
const sql = openPool(JSON.parse(ADDRESS) as DatabaseAddress, { connections: 1, applicationName: 'holder' });
const storeId = Number(STORE);
await sql.begin(async (tx) => {
  const rows = await tx`
    select from resource where shard = ${shardOf(storeId)} and store_id = ${storeId} and type = 'customer' and id = ${RESOURCE}
    for update`;
  process.stdout.write(`${rows.length}\n`);
  // Never settles: the connection keeps the process alive.
  await new Promise<never>(() => {});
});
