/**
 * A webhook with the ordering `resource` gets the events of each resource one after the other: none is sent before the one before it
 * was delivered or has failed for good, whatever is retried and whichever worker owns the shard. Other resources do not wait.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Worker } from '#delivery/worker.ts';
import { amountOf } from '../setup/amount.ts';
import { startTestApp } from '../setup/app.ts';
import { standingClock } from '../setup/clock.ts';
import { COMPLETE_STOP, startEngine } from '../setup/engine.ts';
import { startReceiver, type Got } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
const app = await startTestApp({ roles: ['serve', 'deliver'] });

/** A request as the receiver got it, with the status that it responded. */
type Arrival = { resource: number; version: number; attempt: number; status: number };

const arrivalOf = ({ body, headers }: Got, status: number): Arrival => ({
  resource: (JSON.parse(String(body)) as { id: number }).id,
  version: Number(headers['service-webhook-resource-version']),
  attempt: Number(headers['service-webhook-attempt']),
  status,
});

const isAccepted = ({ status }: Arrival): boolean => status === 204;

/** Returns the arrivals that came before an earlier version of their resource was accepted. */
function early(arrivals: readonly Arrival[]): Arrival[] {
  const accepted = new Map<number, number>();
  return arrivals.filter((arrival) => {
    const { resource, version } = arrival;
    const last = accepted.get(resource) ?? 0;
    if (isAccepted(arrival)) accepted.set(resource, Math.max(last, version));
    return version > last + 1;
  });
}

const publishing = fc.record({
  kind: fc.constant('publish' as const),
  resources: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 12 }),
  isOffered: fc.boolean(),
});
const step = fc.oneof(
  publishing,
  fc.record({ kind: fc.constant('advance' as const), ms: fc.integer({ min: 1_000, max: 90_000 }) }),
  fc.record({ kind: fc.constant('replace worker' as const) }),
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;
const tenths = fc.infiniteStream(fc.integer({ min: 0, max: 9 }));

test('versions of a resource arrive one after the other under retries, restarts and take-overs', async (t) => {
  const engine = await startEngine();
  const seen = { arrivals: 0, refused: 0 };
  // An attempt that a stop aborts may have been accepted, and is then sent again.
  const startWorker = () => engine.startWorker({ stopping: COMPLETE_STOP });
  const workers: Worker[] = [await startWorker(), await startWorker()];
  const run = async (steps: readonly Step[], isRefused: () => boolean): Promise<void> => {
    const storeId = await engine.addStore();
    const receiver = await startReceiver();
    const arrivals: Arrival[] = [];
    receiver.answer((got, response) => {
      const before = arrivalOf(got, 0);
      // Refused twice at most, so that the webhook is not disabled.
      const status = before.attempt < 3 && (arrivals.length === 0 || isRefused()) ? 500 : 204;
      arrivals.push({ ...before, status });
      response.writeHead(status).end();
    });
    await engine.addWebhook(receiver.url, { isOrdered: true, storeId });
    for (const one of steps) {
      if (one.kind === 'publish') await engine.publish(one.resources, one.isOffered ? workers[0] : undefined, storeId);
      else if (one.kind === 'advance') engine.clock.advance(one.ms);
      else {
        workers.push(await startWorker());
        await workers.shift()?.stop();
      }
    }
    await until(
      async () => {
        engine.clock.advance(15_000);
        // The order of a delivery is deleted a moment after its end.
        return engine.sql`(select id from delivery limit 1) union all (select delivery_id from delivery_order limit 1)`;
      },
      ({ length }) => length === 0,
    );
    const accepted = arrivals.filter(isAccepted);
    const published = new Set(arrivals.map(({ resource, version }) => `${resource} ${version}`));
    assert.deepEqual(early(arrivals), []);
    assert.equal(accepted.length, published.size);
    await receiver.close();
    seen.arrivals += arrivals.length;
    seen.refused += arrivals.length - accepted.length;
  };
  await fc.assert(
    fc.asyncProperty(publishing, fc.array(step, { minLength: 1, maxLength: 7 }), tenths, (first, others, numbers) =>
      run([first, ...others], () => numbers.next().value < 3),
    ),
    { numRuns: amountOf('resource-order', { all: 12, part: 4 }) },
  );
  await Promise.all(workers.map((worker) => worker.stop()));
  t.diagnostic(`${seen.arrivals} requests, ${seen.refused} of them refused`);
});

test('an event that fails for good lets the next one of its resource be sent at once', async () => {
  // After half a minute the next delivery would check for itself whether it still has to wait. On this clock it does not pass.
  const engine = await startEngine({ clock: standingClock() });
  const receiver = await startReceiver();
  const arrivals: Arrival[] = [];
  receiver.answer((got, response) => {
    const isRefused = arrivalOf(got, 0).resource === 1 && arrivalOf(got, 0).version === 1;
    arrivals.push(arrivalOf(got, isRefused ? 500 : 204));
    response.writeHead(isRefused ? 500 : 204).end();
  });
  await engine.addWebhook(receiver.url, { isOrdered: true });
  const worker = await engine.startWorker();
  await engine.publish([1, 1], worker);
  const of1 = () => arrivals.filter(({ resource }) => resource === 1);
  for (let attempt = 1; ; attempt += 1) {
    await until(
      async () => of1().length,
      (count) => count >= attempt,
    );
    assert.deepEqual(
      of1()
        .map(({ version }) => version)
        .slice(0, attempt),
      Array.from({ length: attempt }, () => 1),
    );
    // A success of another resource, so that the webhook is not disabled.
    const seen = arrivals.length;
    await engine.publish([2], worker);
    await receiver.until(seen + 1);
    if (attempt === 12) break;
    // The time of the next attempt counts from the recorded one.
    await until(
      () => engine.sql`select from delivery where attempts = ${attempt}`,
      ({ length }) => length === 1,
    );
    engine.clock.advance(16 * 60_000);
  }
  await until(
    async () => of1().at(-1),
    (last) => last?.version === 2,
  );
  assert.equal(of1().length, 13);
});

type Delivery = {
  id: number;
  resource_id: string;
  status: string;
  waits_for?: string;
  _links: Record<string, { href: string }>;
};

const pathOf = (delivery: Delivery, rel: string): string => new URL(delivery._links[rel]?.href ?? '').pathname;

async function shown(delivery: Delivery): Promise<Delivery> {
  const page = await app.api('GET', pathOf(delivery, 'self'));
  return (await page.json()) as Delivery;
}

async function retry(delivery: Delivery): Promise<void> {
  const { status } = await app.api('POST', pathOf(await shown(delivery), 'svc:retry'));
  assert.ok(status < 300, String(status));
}

async function publish(event: string, id: string): Promise<void> {
  const body = { event: `transaction/${event}`, resource: { id } };
  const { status } = await app.api('POST', `/stores/${app.storeId}/events`, { token: app.platformToken, body });
  assert.equal(status, 201);
}

/** Creates a webhook with the ordering, whose endpoint refuses the resources in `refused`. */
async function openOrdered(refused: ReadonlySet<string>) {
  const receiver = await startReceiver();
  const idOf = ({ body }: Got) => (JSON.parse(String(body)) as { id: string }).id;
  receiver.answer((got, response) => void response.writeHead(refused.has(idOf(got)) ? 500 : 204).end());
  const settings = { name: 'Ordered', format: 'json', encryption_key: 'k', url: receiver.url, ordering: 'resource' };
  const body = { ...settings, events: ['transaction/created', 'transaction/modified'] };
  const made = await app.api('POST', `/stores/${app.storeId}/webhooks`, { body });
  assert.equal(made.status, 201);
  const path = new URL(made.headers.get('location') ?? '').pathname;
  return {
    path,
    receiver,
    got: () => receiver.got.map((got) => `${idOf(got)} ${String(got.headers['service-webhook-event'])}`),
    deliveries: async () => {
      const page = await app.api('GET', `${path}/statuses?order=id`);
      return ((await page.json()) as { _embedded: { 'svc:statuses': Delivery[] } })._embedded['svc:statuses'];
    },
  };
}

test('the page of a waiting delivery says which one it waits for; a requested retry of it does not overtake that one', async () => {
  const refused = new Set(['a']);
  const { receiver, got, deliveries } = await openOrdered(refused);
  await publish('created', 'a');
  await receiver.until(1);
  await publish('modified', 'a');
  await publish('created', 'b');
  await receiver.until(2);
  const [first, second] = (await deliveries()).filter(({ resource_id: id }) => id === 'a');
  assert.ok(first && second);
  const waiting = await shown(second);
  assert.equal(waiting.waits_for, `The end of delivery ${first.id}, the one before it of the same resource.`);
  assert.equal(pathOf(waiting, 'svc:preceding'), pathOf(await shown(first), 'self'));
  assert.equal((await shown(first))._links['svc:preceding'], undefined);

  await retry(second);
  await publish('modified', 'b');
  await receiver.until(3);
  refused.clear();
  await retry(first);
  await receiver.until(5);
  assert.deepEqual(got(), [
    'a transaction/created',
    'b transaction/created',
    'b transaction/modified',
    'a transaction/created',
    'a transaction/modified',
  ]);
});

test('recovered events of a resource are sent one after the other', async () => {
  const refused = new Set(['d']);
  const { path, receiver, got, deliveries } = await openOrdered(refused);
  const activate = (is_active: string) => app.api('PATCH', path, { body: { is_active } });
  await activate('0');
  for (const event of ['created', 'modified', 'modified']) await publish(event, 'd');
  await activate('1');
  const since = new Date(app.clock.now().getTime() - 3_600_000).toISOString();
  assert.equal((await app.api('POST', `${path}/recover`, { body: { since, resource_id: 'd' } })).status, 202);
  await receiver.until(1);
  await publish('created', 'e');
  await receiver.until(2);
  refused.clear();
  const [first] = await until(deliveries, ({ length }) => length === 4);
  assert.ok(first);
  await retry(first);
  await receiver.until(5);
  assert.deepEqual(got(), [
    'd transaction/created',
    'e transaction/created',
    'd transaction/created',
    'd transaction/modified',
    'd transaction/modified',
  ]);
});
