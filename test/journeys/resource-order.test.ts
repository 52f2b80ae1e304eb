/**
 * A webhook with the ordering `resource` gets the events of each resource one after the other: none is sent before the one before it
 * was delivered or has failed for good, whatever is retried and whichever worker owns the shard. Other resources do not wait.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Worker } from '#delivery/worker.ts';
import { startTestApp } from '../setup/app.ts';
import { startEngine } from '../setup/engine.ts';
import { startReceiver, type Got } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

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

const step = fc.oneof(
  fc.record({
    kind: fc.constant('publish' as const),
    resources: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 12 }),
    isOffered: fc.boolean(),
  }),
  fc.record({ kind: fc.constant('advance' as const), ms: fc.integer({ min: 1_000, max: 90_000 }) }),
  fc.record({ kind: fc.constant('replace worker' as const) }),
);
/** Less than the time after which a delivery checks for itself whether it still has to wait. */
const AT_ONCE_MS = 4_000;

type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;
const tenths = fc.infiniteStream(fc.integer({ min: 0, max: 9 }));

const engine = await startEngine();

test('versions of a resource arrive one after the other under retries, restarts and take-overs', async (t) => {
  const shown = { arrivals: 0, refused: 0 };
  const workers: Worker[] = [await engine.startWorker(), await engine.startWorker()];
  const run = async (steps: readonly Step[], isRefused: () => boolean): Promise<void> => {
    const storeId = await engine.addStore();
    const receiver = await startReceiver();
    const arrivals: Arrival[] = [];
    receiver.answer((got, response) => {
      const before = arrivalOf(got, 0);
      // Refused twice at most, so that the webhook is not disabled.
      const status = before.attempt < 3 && isRefused() ? 500 : 204;
      arrivals.push({ ...before, status });
      response.writeHead(status).end();
    });
    await engine.addWebhook(receiver.url, { isOrdered: true, storeId });
    for (const one of steps) {
      if (one.kind === 'publish') await engine.publish(one.resources, one.isOffered ? workers[0] : undefined, storeId);
      else if (one.kind === 'advance') engine.clock.advance(one.ms);
      else {
        workers.push(await engine.startWorker());
        await workers.shift()?.stop();
      }
    }
    await until(
      async () => {
        engine.clock.advance(15_000);
        return engine.sql`select from delivery limit 1`;
      },
      ({ length }) => length === 0,
    );
    const accepted = arrivals.filter(isAccepted);
    const published = new Set(arrivals.map(({ resource, version }) => `${resource} ${version}`));
    assert.deepEqual(early(arrivals), []);
    assert.equal(accepted.length, published.size);
    assert.equal((await engine.sql`select from delivery_order`).length, 0);
    await receiver.close();
    shown.arrivals += arrivals.length;
    shown.refused += arrivals.length - accepted.length;
  };
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 8 }), tenths, (steps, numbers) =>
      run(steps, () => numbers.next().value < 3),
    ),
    { numRuns: 12 },
  );
  await Promise.all(workers.map((worker) => worker.stop()));
  t.diagnostic(`${shown.arrivals} requests, ${shown.refused} of them refused`);
  assert.ok(shown.refused > 0);
});

test('an event that fails for good lets the next one of its resource be sent at once', async () => {
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
  for (let attempt = 1; attempt <= 12; attempt += 1) {
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
    if (attempt < 12) engine.clock.advance(16 * 60_000);
  }
  const failedMs = performance.now();
  await until(
    async () => of1().at(-1),
    (last) => last?.version === 2,
  );
  assert.ok(performance.now() - failedMs < AT_ONCE_MS);
  assert.equal(of1().length, 13);
});

const app = await startTestApp({ roles: ['serve', 'deliver'] });
const receiver = await startReceiver();

test('the page of a waiting delivery says which one it waits for; a requested retry of it does not overtake that one', async () => {
  const refusing = new Set(['a']);
  receiver.answer((got, response) => {
    const { id } = JSON.parse(String(got.body)) as { id: string };
    response.writeHead(refusing.has(id) ? 500 : 204).end();
  });
  const hook = {
    name: 'Ordered',
    format: 'json',
    encryption_key: 'k',
    url: `${receiver.url}/`,
    ordering: 'resource',
    events: ['transaction/created', 'transaction/modified'],
  };
  const made = await app.api('POST', `/stores/${app.storeId}/webhooks`, { body: hook });
  assert.equal(made.status, 201);
  const webhook = new URL(made.headers.get('location') ?? '').pathname;
  const publish = async (event: string, id: string) => {
    const body = { event: `transaction/${event}`, resource: { id } };
    const { status } = await app.api('POST', `/stores/${app.storeId}/events`, { token: app.platformToken, body });
    assert.equal(status, 201);
  };
  await publish('created', 'a');
  await receiver.until(1);
  await publish('modified', 'a');
  await publish('created', 'b');
  await receiver.until(2);
  type Delivery = {
    id: number;
    resource_id: string;
    event: string;
    status: string;
    waits_for?: string;
    _links: Record<string, { href: string }>;
  };
  const deliveries = async () => {
    const page = await app.api('GET', `${webhook}/statuses?order=id`);
    return ((await page.json()) as { _embedded: { 'svc:statuses': Delivery[] } })._embedded['svc:statuses'];
  };
  const shown = async ({ _links }: Delivery) =>
    (await (await app.api('GET', new URL(_links['self']?.href ?? '').pathname)).json()) as Delivery;
  const [first, second] = (await deliveries()).filter(({ resource_id: id }) => id === 'a');
  assert.ok(first && second);
  const waiting = await until(
    () => shown(second),
    (one) => one.waits_for !== undefined && one._links['svc:preceding'] !== undefined,
  );
  assert.equal(waiting.waits_for, `The end of delivery ${first.id}, the one before it of the same resource.`);
  assert.equal(waiting._links['svc:preceding']?.href, (await shown(first))._links['self']?.href);
  assert.equal((await shown(first))._links['svc:preceding'], undefined);

  const retry = async (one: Delivery) => {
    const { status } = await app.api('POST', new URL((await shown(one))._links['svc:retry']?.href ?? '').pathname);
    assert.ok(status < 300, String(status));
  };
  await retry(second);
  await publish('created', 'c');
  await receiver.until(3);
  refusing.clear();
  await retry(first);
  await receiver.until(5);
  const got = receiver.got.map(
    ({ body, headers }) =>
      `${(JSON.parse(String(body)) as { id: string }).id} ${String(headers['service-webhook-event'])}`,
  );
  assert.deepEqual(got, [
    'a transaction/created',
    'b transaction/created',
    'c transaction/created',
    'a transaction/created',
    'a transaction/modified',
  ]);
});
