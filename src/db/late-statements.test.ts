import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cleanups } from '../../test/setup/cleanups.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { startProxy } from '../../test/setup/proxy.ts';
import { until } from '../../test/setup/until.ts';
import { openPool, transaction } from './pool.ts';

/** Round trips within which the driver sends everything that it still has to send. */
const ROUND_TRIPS = 5;

/** Returns two transaction ids; they are equal if the second statement still runs in the same transaction. */
async function idsAround(isRejected: boolean) {
  const ends = cleanups();
  const { address } = await testDatabase(ends);
  assert.ok(address.kind === 'socket');
  const proxy = await startProxy(address, ends);
  const sql = openPool({ kind: 'url', url: proxy.url }, { connections: 1, applicationName: 'test' });
  ends.after(() => sql.end({ timeout: 0 }));
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const broken = transaction(sql, async (tx) => {
    await tx`select 1`;
    proxy.cut();
    await late;
    if (isRejected) throw new Error('late');
  });
  await assert.rejects(broken);
  const isThere = () =>
    sql`select 1`.then(
      () => true,
      () => false,
    );
  await until(isThere, Boolean);
  return transaction(sql, async (tx) => {
    const idNow = async () => (await tx<{ id: string }[]>`select pg_current_xact_id()::text as id`)[0]?.id;
    const before = await idNow();
    resolve();
    for (let trip = 0; trip < ROUND_TRIPS; trip += 1) await tx`select 1`;
    return [before, await idNow()];
  });
}

for (const isRejected of [false, true]) {
  const how = isRejected ? 'fails' : 'ends';
  test(`a transaction whose connection broke does not end another one when it ${how} later`, async () => {
    const [before, after] = await idsAround(isRejected);
    assert.notEqual(before, undefined);
    assert.equal(after, before);
  });
}
