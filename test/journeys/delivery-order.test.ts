/**
 * A model of the order of delivery: events published in sequence, one by one, in arrays and derived, through several
 * processes, get increasing delivery ids in that order. Those of one resource that the owner of the shard publishes arrive in it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { amountOf } from '../setup/amount.ts';
import { openPublishFixture } from '../setup/publish-fixture.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const fixture = await openPublishFixture(['serve', 'deliver']);
const { app, storeId } = fixture;
const other = await app.startSecond();
const receiver = await startReceiver();

const hook = { name: 'Order', format: 'json', encryption_key: 'k', url: `${receiver.url}/` };
async function addWebhook(events: string[]): Promise<void> {
  const made = await app.api('POST', `/stores/${storeId}/webhooks`, { body: { ...hook, events } });
  assert.equal(made.status, 201, await made.text());
}
await addWebhook(['transaction/created', 'transaction/modified', 'transaction/captured', 'transaction/refunded']);
await addWebhook(['subscription_event/created']);
const changed = await app.api('PATCH', `/stores/${storeId}`, { body: { subscription_events: 'derived' } });
assert.equal(changed.status, 200, await changed.text());

const ACTIONS = ['created', 'modified', 'captured', 'refunded'] as const;
type Operation = { isElsewhere: boolean; resources: readonly number[] };
const operation: fc.Arbitrary<Operation> = fc.record({
  isElsewhere: fc.boolean(),
  resources: fc.oneof(
    fc.integer({ min: 0, max: 2 }).map((one) => [one]),
    fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 2, maxLength: 20 }),
  ),
});

/** Returns the attempts of one run's events, ordered by delivery id; `n` is the position of the event. */
const attemptsOf = (run: number) => fixture.sql<{ n: number }[]>`
  select (e.body::jsonb->>'n')::int as n
  from attempt_log a join event e on e.shard = a.shard and e.id = a.event_id
  where e.resource_id like ${`${run}-%`} order by a.delivery_id`;

/** Returns the events of one run as the receiver got them. */
const arrivals = (run: number): { id: string | number; n: number }[] =>
  receiver.got
    .map(({ body }) => JSON.parse(String(body)) as { id: string | number; n: number })
    .filter(({ id }) => String(id).startsWith(`${run}-`));

let runs = 0;
test('deliveries are numbered in the order in which their events were published, and those of a resource arrive in it', async (t) => {
  let shown = '';
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 5 }), async (operations) => {
      runs += 1;
      const published: boolean[] = [];
      for (const { isElsewhere, resources } of operations) {
        const events = resources.map((resource) => {
          const n = published.push(isElsewhere) - 1;
          return { event: `transaction/${ACTIONS[n % ACTIONS.length]}`, resource: { id: `${runs}-${resource}`, n } };
        });
        const body = events.length === 1 ? events[0] : events;
        const { status, text } = await fixture.publish(isElsewhere ? other : app.baseUrl, body);
        assert.ok(status === 200 || status === 201, text);
      }
      const attempts = await until(
        () => attemptsOf(runs),
        ({ length }) => length === published.length,
      );
      shown = attempts.map(({ n }) => n).join(' ');
      assert.deepEqual(
        attempts.map(({ n }) => n),
        [...published.keys()],
      );
      const arrived = arrivals(runs).filter(({ n }) => published[n] === false);
      for (const ofResource of Map.groupBy(arrived, ({ id }) => id).values()) {
        const order = ofResource.map(({ n }) => n);
        assert.deepEqual(
          order,
          order.toSorted((a, b) => a - b),
        );
      }
    }),
    { numRuns: amountOf('delivery-order', { all: 40, part: 10 }) },
  );
  t.diagnostic(`the last: ${shown}`);
});

test('events of one resource arrive one after the other, though there are several connections', async () => {
  const open = { all: 0, ofResource: 0 };
  const most = { all: 0, ofResource: 0 };
  receiver.answer((got, response) => {
    const { id } = JSON.parse(String(got.body)) as { id: string | number };
    const isSame = String(id).endsWith('-0');
    open.all += 1;
    open.ofResource += isSame ? 1 : 0;
    most.all = Math.max(most.all, open.all);
    most.ofResource = Math.max(most.ofResource, open.ofResource);
    setTimeout(() => {
      open.all -= 1;
      open.ofResource -= isSame ? 1 : 0;
      response.writeHead(204).end();
    }, 2);
  });
  const publishMany = async (): Promise<number> => {
    runs += 1;
    const resources = Array.from({ length: 200 }, (_, n) => ({ id: `${runs}-${n % 2 === 0 ? 0 : n}`, n }));
    const events = resources.map((resource) => ({ event: 'transaction/modified', resource }));
    const { status, text } = await fixture.publish(app.baseUrl, events);
    assert.equal(status, 200, text);
    const arrived = await until(
      async () => arrivals(runs),
      ({ length }) => length === events.length,
    );
    const order = arrived.filter(({ id }) => id === `${runs}-0`).map(({ n }) => n);
    assert.deepEqual(
      order,
      order.toSorted((a, b) => a - b),
    );
    return most.all;
  };
  // A busy worker opens no second connection, because its own delay explains slow responses.
  await until(publishMany, (atOnce) => atOnce > 1);
  assert.equal(most.ofResource, 1);
  receiver.answer((_got, response) => void response.writeHead(204).end());
});

test('derived events are delivered in the order in which they happened', async () => {
  const versions = [
    { id: 's1', is_active: true, frequency: '1m', start_date: '2026-06-30' },
    { id: 's1', is_active: true, frequency: '2m', start_date: '2026-06-30' },
    { id: 's1', is_active: false, frequency: '2m', start_date: '2026-06-30' },
  ].map((resource) => ({ event: 'subscription/modified', resource }));
  const { status, text } = await fixture.publish(app.baseUrl, versions);
  assert.equal(status, 200, text);
  const derived = async () => {
    const page = await app.api('GET', `/stores/${storeId}/events?event=subscription_event/created&order=id&limit=300`);
    return ((await page.json()) as { _embedded: { 'svc:events': { resource_id: string }[] } })._embedded['svc:events'];
  };
  const ids = (await derived()).map((one) => one.resource_id);
  assert.ok(ids.length >= 3, `${ids.length} steps`);
  const attempts = await until(
    () => fixture.sql<{ id: string }[]>`
      select e.resource_id as id from attempt_log a join event e on e.shard = a.shard and e.id = a.event_id
      where e.resource_type = 'subscription_event' order by a.delivery_id`,
    ({ length }) => length === ids.length,
  );
  assert.deepEqual(
    attempts.map(({ id }) => id),
    ids,
  );
});
