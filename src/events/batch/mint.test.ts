import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testDatabase } from '../../../test/setup/database.ts';
import { createMint } from './mint.ts';

const { sql } = await testDatabase();

test('numbers are taken one after the other, and none twice, over blocks and by whoever asks at once', async () => {
  const mint = createMint();
  const taken = (await Promise.all([mint(sql, 1_000), mint(sql, 1_000), mint(sql, 1_000)])).flat();
  assert.equal(new Set(taken).size, 3_000);
});

test('a transaction takes numbers while the pool has no connection for anybody else', async () => {
  const mint = createMint();
  const waiting = Promise.withResolvers<void>();
  await sql.begin(async (tx) => {
    const others = await Promise.all(Array.from({ length: 9 }, () => sql.reserve()));
    const late = mint(sql, 1);
    const [number] = await mint(tx, 1, 'inTransaction');
    assert.equal(typeof number, 'number');
    for (const one of others) one.release();
    void late.then(() => waiting.resolve());
  });
  await waiting.promise;
});

test('what is left of a block is not used after five seconds, so that ids rise with time over all writers', async () => {
  let nowMs = 0;
  const [quiet, busy] = [createMint(() => nowMs), createMint(() => nowMs)];
  await quiet(sql, 1);
  await busy(sql, 3_000);
  nowMs = 6_000;
  const [late = 0] = await quiet(sql, 1);
  const [before = 0] = (await busy(sql, 1)).slice(-1);
  assert.ok(late > before - 2 * 1_024, `${late} beside ${before}`);
});
