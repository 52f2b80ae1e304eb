/** Two processes that publish versions of the same subscription at the same moment derive each step once. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ISSUER } from '../security/oauth-server.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { createCaller, itemsOf, type Representation } from '../setup/caller.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { until } from '../setup/until.ts';

const ROUNDS = 10;

const people = await startWithPeople();
const { sql, alpha, platformToken: token } = people;
const callers = [people.call, createCaller(await people.startSecond(), ISSUER)] as const;

type Json = Record<string, unknown>;

const version = (id: string, changes: Json) => ({
  event: 'subscription/modified',
  resource: { id, is_active: true, frequency: '1m', end_date: null, ...changes },
});
/** Publishes by one of the two processes. */
async function publish(which: number, body: unknown): Promise<number> {
  const call = callers[which % 2] ?? people.call;
  return (await call('POST', `/stores/${alpha}/events`, { token, body })).status;
}
async function stepsOf(id: string): Promise<Representation[]> {
  const path = `/stores/${alpha}/subscription_events?limit=300&subscription_id=${id}`;
  return itemsOf(await people.call('GET', path, { token }), 'subscription_events');
}
const eventsOf = async (id: string): Promise<string[]> =>
  (await stepsOf(id)).map(({ event }) => String(event)).toSorted();
async function versionOf(id: string): Promise<unknown> {
  const [row] =
    await sql`select version from resource where store_id = ${alpha} and type = 'subscription' and id = ${id}`;
  return row?.['version'];
}

/** Both publish while the row of the subscription is locked; they continue when both wait for it. */
async function meet(hold: (tx: typeof sql) => Promise<unknown>, bodies: readonly [unknown, unknown]): Promise<void> {
  const [held, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const undone = new Error('undone');
  const holding = sql
    .begin(async (tx) => {
      await hold(tx as unknown as typeof sql);
      held.resolve();
      await release.promise;
      throw undone;
    })
    .catch((error: unknown) => assert.equal(error, undone));
  await held.promise;
  const published = bodies.map((body, which) => publish(which, body));
  await until(
    () => waitingForLocks(sql),
    (waiting) => waiting === 2,
  );
  release.resolve();
  await holding;
  assert.deepEqual(await Promise.all(published), [201, 201]);
}

/** A subscription that does not exist yet: a read finds no row, and an insert has to wait. */
const holdNew = (id: string) => (tx: typeof sql) =>
  tx`
  insert into resource (shard, store_id, type, id, version, modified_at, event_id, head_event_id, time_zone, base_url, body)
  values (${alpha % 256}, ${alpha}, 'subscription', ${id}, 1, now(), 1, 1, 'UTC', '', '{}')`;
const holdThere = (id: string) => (tx: typeof sql) =>
  tx`
  select from resource where store_id = ${alpha} and type = 'subscription' and id = ${id} for update`;

// The first publish opens the book of the store: later ones do not wait for that.
assert.equal(await publish(0, version('opening', {})), 201);

test('a subscription that is new to both is activated once, and the second version is a change', async () => {
  await meet(holdNew('new'), [version('new', { n: 1 }), version('new', { n: 2 })]);
  assert.deepEqual(await eventsOf('new'), ['activated', 'modified']);
  assert.equal(await versionOf('new'), 2);
});

test('a subscription that is new to both is activated once, also if one version is older', async () => {
  const dated = (day: string) => version('older', { n: day, date_modified: `2026-06-${day}T12:00:00+0000` });
  await meet(holdNew('older'), [dated('02'), dated('01')]);
  const steps = await eventsOf('older');
  assert.equal(steps.filter((step) => step === 'activated').length, 1);
});

test('two versions after the same one are compared one after the other', async () => {
  await publish(0, version('there', {}));
  const ending = { end_date: '2026-12-31' };
  await meet(holdThere('there'), [version('there', ending), version('there', { ...ending, note: 'by phone' })]);
  const cancelled = (await eventsOf('there')).filter((step) => step === 'cancelled');
  assert.equal(cancelled.length, 1);
});

test('in ten races of two processes one activation is derived each time, whichever is first', async () => {
  for (let round = 0; round < ROUNDS; round += 1) {
    const id = `round-${round}`;
    const bodies = [0, 1, 2, 3].map((which) => publish(which, version(id, { n: which })));
    assert.deepEqual(new Set(await Promise.all(bodies)), new Set([201]));
    assert.deepEqual(await eventsOf(id), ['activated', 'modified', 'modified', 'modified']);
    assert.equal(await versionOf(id), 4);
  }
});

test('fifty concurrent versions over two processes are one chain', async () => {
  await publish(0, version('chain', { n: 0 }));
  await Promise.all(Array.from({ length: 50 }, (_, n) => publish(n, version('chain', { n: n + 1 }))));
  const steps = (await stepsOf('chain')).filter(({ event }) => event === 'modified');
  const next = new Map(steps.map(({ before, after }) => [(before as { n: number }).n, (after as { n: number }).n]));
  const met: number[] = [];
  for (let at: number | undefined = 0; at !== undefined; at = next.get(at)) met.push(at);
  assert.equal(new Set(met).size, 51);
  assert.equal(met.length, 51);
  assert.equal(await versionOf('chain'), 51);
});
