/** Tokens that are used while the home database is not available. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withKnownTokens } from './oauth-tokens.ts';

type Row = NonNullable<Awaited<ReturnType<Parameters<typeof withKnownTokens>[0]>>>;
const row = (grantId: number) => ({ grantId }) as Row;

/** A table of tokens that may be unavailable, and a clock. */
function createTable(outageMs: number) {
  const rows = new Map([['a', row(1)]]);
  const state = { nowMs: 0, error: undefined as Error | undefined };
  const read = async (hash: string) => {
    if (state.error !== undefined) throw state.error;
    return rows.get(hash);
  };
  const find = withKnownTokens(read, { outageMs, monotonicMs: () => state.nowMs });
  return { rows, state, find };
}
const DOWN = Object.assign(new Error('down'), { code: 'ECONNREFUSED' });

test('a token that was read is used during an outage for the time of the setting, and not longer', async () => {
  const { state, find } = createTable(60_000);
  await find('a');
  state.error = DOWN;
  state.nowMs = 60_000;
  assert.equal((await find('a'))?.grantId, 1);
  state.nowMs = 60_001;
  await assert.rejects(find('a'), /down/);
});

test('a token that was never read, or was gone at the last read, is not used', async () => {
  const { rows, state, find } = createTable(60_000);
  await find('a');
  rows.delete('a');
  assert.equal(await find('a'), undefined);
  state.error = DOWN;
  await assert.rejects(find('a'), /down/);
  await assert.rejects(find('b'), /down/);
});

test('an error that is no outage is not hidden', async () => {
  const { state, find } = createTable(60_000);
  await find('a');
  state.error = new Error('a statement failed');
  await assert.rejects(find('a'), /a statement failed/);
});

test('without the setting no token is kept', async () => {
  const { state, find } = createTable(0);
  await find('a');
  state.error = DOWN;
  await assert.rejects(find('a'), /down/);
});
