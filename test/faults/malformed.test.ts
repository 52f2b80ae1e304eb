/** 100,000 malformed requests: none is a server error, none hangs, and no user data is lost. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { amountOf } from '../setup/amount.ts';
import { until } from '../setup/until.ts';
import { openFixture } from './malformed/fixture.ts';
import { differenceOf, readKept } from './malformed/user-data.ts';
import { storm } from './malformed/send.ts';
import { SEED } from '../setup/seed.ts';

const TOTAL = amountOf('malformed', { all: 100_000, part: 20_000 });
const WARM_UP = 4_000;
const GROWTH_MAX_BYTES = 100 * 1024 * 1024;
/** The seed differs in each run; set the printed one here to repeat a run. */

// Only reachable memory counts, not uncollected garbage.
setFlagsFromString('--expose-gc');
const sweep = runInNewContext('gc') as () => void;
function memoryBytes(): number {
  sweep();
  return process.memoryUsage.rss();
}

const fixture = await openFixture();
const { app } = fixture;

const before = await readKept(app.sql);
const started = performance.now();
const first = await storm(fixture, { total: WARM_UP, seed: SEED });
const bytesBefore = memoryBytes();
const second = await storm(fixture, { total: TOTAL - WARM_UP, seed: SEED + WARM_UP });
const seconds = (performance.now() - started) / 1_000;
const after = await readKept(app.sql);
const successes = [...first.successes, ...second.successes];
const difference = differenceOf(before, after);
const sandboxes = await app.sql<{ id: string }[]>`select id::text from store where sandbox_of is not null`;

/** The ids in the addresses of successful changes. */
const touched = new Set(successes.flatMap(({ target }) => target.split('?', 1)[0]?.split('/') ?? []));
const lastOf = (address = ''): string => address.split('/').at(-1) ?? '';

test('no malformed request is a server error, and each is rejected in the common error format', (t) => {
  t.diagnostic(`${first.sent + second.sent} requests in ${seconds.toFixed(1)} s`);
  for (const [family, counts] of Object.entries(second.statuses)) t.diagnostic(`${family} ${JSON.stringify(counts)}`);
  assert.ok(first.sent + second.sent >= TOTAL);
  assert.deepEqual([...first.wrong, ...second.wrong], []);
});

test('a valid request in between always succeeds', () => {
  assert.ok(second.good.asked > TOTAL / 100, String(second.good.asked));
  assert.deepEqual([...first.good.refused, ...second.good.refused], []);
});

test('nothing is lost', () => assert.deepEqual(difference.lost, []));

test('each change has a successful answer', () => {
  const unanswered = difference.changed.filter((row) => !row.split('/').some((name) => touched.has(name)));
  assert.deepEqual(unanswered, []);
});

test('each new row was answered with its address, and each answered one exists', () => {
  const isMade = (status: number) => status === 201 || status === 202;
  // Completed deliveries leave their table: they are no user data.
  const isKept = (location = '') => !location.includes('/statuses/');
  // A retry is answered with the address of its webhook.
  const isRetry = (target: string) => target.split('?', 1)[0]?.endsWith('/retry_pending') === true;
  const made = new Set(
    successes
      .filter(({ status, location, target }) => isMade(status) && isKept(location) && !isRetry(target))
      .map(({ location }) => lastOf(location)),
  );
  const names = difference.added.map((row) => row.split('/'));
  // Internal and derived events have no address in the answer to the change.
  const isInternal = ([table, type]: string[]) =>
    table === 'event' && (type === 'changelog' || type === 'subscription_event');
  const top = names
    .filter(([table = '']) => ['users', 'store', 'client', 'webhook', 'event'].includes(table))
    .filter((row) => !isInternal(row));
  const unanswered = top.filter((row) => !row.some((name) => made.has(name)));
  // The first request for the sandbox store of a user creates the store, and is answered with it like the ones that follow.
  const isSandbox = ([table, storeId]: string[]) => table === 'store' && sandboxes.some(({ id }) => id === storeId);
  const isRequested = successes.some(({ target }) => target.split('?', 1)[0]?.endsWith('/sandbox_store'));
  assert.ok(isRequested || sandboxes.length === 0);
  // A test delivery is answered with its response, not with the address of its sample event.
  const samples = successes.filter(({ target }) => target.split('?', 1)[0]?.endsWith('/test'));
  assert.deepEqual(
    unanswered.filter((row) => row[0] !== 'event' && !isSandbox(row)),
    [],
  );
  assert.equal(unanswered.filter((row) => !isSandbox(row)).length, samples.length);
  const there = new Set(names.flat());
  assert.deepEqual(
    [...made].filter((name) => !there.has(name)),
    [],
  );
});

test('the memory of the requests is freed', async (t) => {
  const grownBytes = async () => memoryBytes() - bytesBefore;
  // Freed memory is returned to the system with a delay.
  const bytes = await until(grownBytes, (grown) => grown < GROWTH_MAX_BYTES);
  t.diagnostic(`grown by ${Math.round(bytes / 1024 / 1024)} MiB`);
});

test('the server still answers', async () => {
  assert.equal((await app.api('GET', `/stores/${app.storeId}/webhooks`)).status, 200);
});
