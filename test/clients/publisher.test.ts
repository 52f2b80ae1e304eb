/** packages/publisher over real sockets to the application, through a proxy that fails when a test wants it to. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import * as fc from 'fast-check';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createStore } from '#stores/store.ts';
import { createLoader, createPublisher, PublishError, type EventInput, type PublishedEvent, type Publisher, type PublisherOptions } from '../../packages/publisher/src/publisher.ts';
import { startTestApp } from '../setup/app.ts';
import { cleanups } from '../setup/cleanups.ts';
import { freePort } from '../setup/free-port.ts';
import { startGate, type Fate } from '../setup/publish-gate.ts';
import { until } from '../setup/until.ts';

const ends = cleanups();
const app = await startTestApp({ roles: ['serve'] });
const { sql } = app;
const platform = await createClient(sql, { name: 'Shop', redirectUris: [], trusted: true, now: app.clock.now() });
const gate = await startGate(app.baseUrl, ends);

/** A clock on which waits pass at once. */
function createClock() {
  let passedMs = 0;
  const waits: number[] = [];
  const clock = {
    nowMs: () => performance.now() + passedMs,
    wait: async (ms: number) => {
      waits.push(ms);
      passedMs += ms;
    },
    random: () => 0.5,
  };
  return { clock, waits, advance: (ms: number) => void (passedMs += ms) };
}

const open = (options: Partial<PublisherOptions> = {}): Publisher =>
  createPublisher({
    baseUrl: gate.url,
    clientId: platform.client_id,
    clientSecret: platform.client_secret,
    ...options,
  });

const newStore = async (): Promise<number> => {
  const store = { name: 'S', domain: 's.example', email: 'a@example.com', timeZone: 'UTC', now: app.clock.now() };
  return (await createStore(sql, store)).id;
};
let storeId = 0;
beforeEach(async () => {
  gate.release();
  Object.assign(gate, { posts: [], tokens: 0, overlaps: 0, mostAtOnce: 0 });
  storeId = await newStore();
});

const order = (id: number | string, more: object = {}) => ({ event: 'transaction/created', resource: { id, ...more } });
const range = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

/** Returns the resources' ids of the store in the order in which they were published. */
async function publishedIds(store = storeId): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    select resource_id::int as id from event where store_id = ${store} order by event.id`;
  return rows.map(({ id }) => id);
}

type Settled = { published?: PublishedEvent; error?: PublishError };

/** Publishes all events at once. */
const publishAll = (publisher: Publisher, events: readonly EventInput[], store = storeId): Promise<Settled[]> =>
  Promise.all(
    events.map((event) =>
      publisher.publish(store, event).then(
        (published) => ({ published }),
        (error: unknown) => ({ error: error instanceof PublishError ? error : assert.fail(String(error)) }),
      ),
    ),
  );

const codesOf = (settled: readonly Settled[]): (string | undefined)[] => settled.map(({ error }) => error?.code);
const withFate = (...fates: Fate[]) => void (gate.fate = (n) => fates[n]);

test('the result is the published event, and JSON text keeps the digits of numbers', async () => {
  const publisher = open();
  const text = '{"event":"transaction/created","resource":{"id":7,"total":12.50,"big":9007199254740993}}';
  const published = await publisher.publish(String(storeId), text);
  assert.deepEqual(
    [published.event, published.resource_type, published.resource_id, published.resource_version],
    ['transaction/created', 'transaction', '7', 1],
  );
  const payload = await app.api('GET', `/stores/${storeId}/events/${published.id}/payload`, {
    token: app.platformToken,
  });
  assert.match(await payload.text(), /"total":12\.50,"big":9007199254740993/);
  await publisher.close();
});

test('the events of a store arrive in order, in few requests of which one is sent at a time', async () => {
  const publisher = open({ batchEvents: 10 });
  await publishAll(
    publisher,
    range(95).map((id) => order(id)),
  );
  await publisher.close();
  assert.deepEqual(await publishedIds(), range(95));
  assert.deepEqual([gate.posts.length, gate.overlaps], [10, 0]);
});

test('a request has at most the bytes of a batch, except with one larger event', async () => {
  const publisher = open({ batchBytes: 1_000 });
  const sizes = [300, 300, 300, 2_000, 300, 300];
  await publishAll(
    publisher,
    sizes.map((size, id) => order(id, { text: 'x'.repeat(size) })),
  );
  assert.deepEqual(
    gate.posts.map(({ events }) => events),
    [2, 1, 1, 2],
  );
  assert.deepEqual(await publishedIds(), range(6));
});

test('stores are served in parallel, up to the limit', async () => {
  const publisher = open({ concurrency: 2 });
  const stores = [storeId, await newStore(), await newStore(), await newStore()];
  gate.fate = () => 'held';
  const all = Promise.all(
    stores.map((store) =>
      publishAll(
        publisher,
        range(3).map((id) => order(id)),
        store,
      ),
    ),
  );
  await until(
    async () => gate.posts.length,
    (count) => count === 2,
  );
  gate.release();
  await all;
  assert.deepEqual([gate.mostAtOnce, gate.posts.length], [2, 4]);
  for (const store of stores) assert.deepEqual(await publishedIds(store), range(3));
});

test('a full batch is sent at once, another one after the delay or when the publisher is closed', async () => {
  const publisher = open({ batchEvents: 3, delayMs: 60_000 });
  await publishAll(
    publisher,
    range(3).map((id) => order(id)),
  );
  const last = publishAll(publisher, [order(3)]);
  assert.deepEqual(await publishedIds(), range(3));
  await publisher.close();
  assert.deepEqual(codesOf(await last), [undefined]);
  assert.deepEqual(await publishedIds(), range(4));
  await open({ delayMs: 1 }).publish(storeId, order(4));
  assert.deepEqual(await publishedIds(), range(5));
});

test('a refused event is rejected alone, with its faults; the others are published in order', async () => {
  const publisher = open();
  const wrong: Record<number, EventInput> = {
    2: { event: 'transaction/made', resource: { id: 2 } },
    3: { event: 'transaction/created', resource: {} },
    5: order(5, { text: 'x'.repeat(300_000) }),
    7: '{"event":"transaction/created","resource":{"id":7,"total":1e999}}',
    8: { event: 'changelog/created', resource: { id: 8 } },
    9: '{"event":',
    10: '[]',
  };
  const settled = await publishAll(
    publisher,
    range(13).map((id) => wrong[id] ?? order(id)),
  );
  const expected = range(13).map((id) => (id in wrong ? (id < 9 ? 'refused' : 'invalid_event') : undefined));
  assert.deepEqual(codesOf(settled), expected);
  const of = (id: number) => settled[id]?.error?.faults.map(({ code, field }) => [code, field]);
  assert.deepEqual(of(2), [['unknown_event', 'event']]);
  assert.deepEqual(of(3), [['invalid_value', 'resource.id']]);
  assert.deepEqual(of(5), [['too_large', 'resource']]);
  assert.ok(settled.every(({ error }) => error?.mayBePublished !== true));
  assert.deepEqual(await publishedIds(), [0, 1, 4, 6, 11, 12]);
});

test('with closeAtRejected the events before the first refused one are published, and none after it', async () => {
  const publisher = open({ closeAtRejected: true, batchEvents: 10 });
  const wrong: Record<number, EventInput> = {
    3: { event: 'transaction/made', resource: { id: 3 } },
    5: { event: 'transaction/made', resource: { id: 5 } },
  };
  const settled = await publishAll(
    publisher,
    range(25).map((id) => wrong[id] ?? order(id)),
  );
  const expected = range(25).map((id) => (id < 3 ? undefined : id === 3 ? 'refused' : 'closed'));
  assert.deepEqual(codesOf(settled), expected);
  assert.deepEqual(codesOf(await publishAll(publisher, [order(30)])), ['closed']);
  await publisher.close();
  assert.deepEqual(await publishedIds(), [0, 1, 2]);
});

test('with closeAtRejected no event is published after one that was unavailable', async () => {
  const { clock } = createClock();
  const publisher = open({ closeAtRejected: true, batchEvents: 1, clock, deadlineMs: 10_000 });
  await publisher.publish(storeId, order(0));
  gate.fate = () => 'busy';
  const [unavailable, later] = await Promise.all([
    publishAll(publisher, [order(1)]).finally(() => gate.release()),
    publishAll(publisher, [order(2), order(3)]),
  ]);
  assert.deepEqual([codesOf(unavailable), codesOf(later)], [['unavailable'], ['closed', 'closed']]);
  await publisher.close();
  assert.deepEqual(await publishedIds(), [0]);
});

test('with closeAtRejected the events before one that cannot be sent are published, and none after it', async () => {
  for (const [store, event, code] of [
    [storeId, '[]', 'invalid_event'],
    [await newStore(), '{"event":', 'invalid_event'],
    [await newStore(), order(3), 'no_store'],
  ] as const) {
    const publisher = open({ closeAtRejected: true, batchEvents: 2, delayMs: 60_000 });
    const before = publishAll(publisher, [order(0), order(1), order(2)], store);
    const wrong = publisher.publish(code === 'no_store' ? '../users' : store, event);
    const after = publishAll(publisher, [order(4), order(5)], store);
    await assert.rejects(wrong, { code });
    assert.deepEqual(
      [codesOf(await before), codesOf(await after)],
      [
        [undefined, undefined, undefined],
        ['closed', 'closed'],
      ],
    );
    await publisher.close();
    assert.deepEqual(await publishedIds(store), range(3));
  }
});

test('a body that is refused as a whole is sent in parts', async () => {
  const publisher = open();
  const manyCommas = { list: Array.from({ length: 60_000 }, () => 0) };
  const settled = await publishAll(
    publisher,
    range(5).map((id) => order(id, manyCommas)),
  );
  assert.deepEqual(
    codesOf(settled),
    range(5).map(() => undefined),
  );
  assert.deepEqual(await publishedIds(), range(5));
  assert.ok(gate.posts.length > 1);
});

test('at most the limit of events and bytes is queued, and publish waits for capacity', async () => {
  for (const limit of [{ waitingEvents: 10 }, { waitingBytes: 500 }]) {
    const store = await newStore();
    const publisher = open({ ...limit, batchEvents: 4, delayMs: 0 });
    const most = { events: 0, bytes: 0 };
    gate.fate = () => {
      const { events, bytes } = publisher.waiting;
      [most.events, most.bytes] = [Math.max(most.events, events), Math.max(most.bytes, bytes)];
      return undefined;
    };
    const settled = await publishAll(
      publisher,
      range(40).map((id) => order(id)),
      store,
    );
    assert.deepEqual(
      codesOf(settled),
      range(40).map(() => undefined),
    );
    assert.deepEqual(await publishedIds(store), range(40));
    if (limit.waitingEvents !== undefined) assert.equal(most.events, limit.waitingEvents);
    else assert.ok(most.bytes <= 500 && most.bytes > 400, String(most.bytes));
    assert.deepEqual(publisher.waiting, { events: 0, bytes: 0 });
  }
});

test('a producer that awaits ready never has an event without capacity', async () => {
  const publisher = open({ waitingEvents: 5 });
  gate.fate = () => 'held';
  let produced = 0;
  const results: Promise<unknown>[] = [];
  const produce = async () => {
    for (const id of range(20)) {
      await publisher.ready();
      produced += 1;
      results.push(publisher.publish(storeId, order(id)));
    }
  };
  const producer = produce();
  await until(
    async () => gate.posts.length,
    (count) => count === 1,
  );
  assert.deepEqual([produced, publisher.waiting.events], [5, 5]);
  gate.release();
  await producer;
  await Promise.all(results);
  assert.deepEqual(await publishedIds(), range(20));
});

test('a 429 is repeated with the same key and body, after the time that Retry-After gives', async () => {
  const { clock, waits } = createClock();
  withFate('busy', 'busy');
  await open({ clock }).publish(storeId, order(1));
  assert.deepEqual(waits, [2_150, 2_300]);
  assert.equal(gate.posts.length, 3);
  assert.equal(new Set(gate.posts.map(({ key, body }) => `${key} ${body}`)).size, 1);
  assert.match(gate.posts[0]?.key ?? '', /^[0-9a-f-]{36}$/);
});

test('lost responses and broken connections are repeated, and each event is published once', async () => {
  const { clock } = createClock();
  withFate('lost', 'refused', 'failed', 'lost', undefined, 'lost');
  const publisher = open({ clock, batchEvents: 2 });
  const settled = await publishAll(
    publisher,
    range(4).map((id) => order(id)),
  );
  assert.deepEqual(await publishedIds(), range(4));
  assert.equal(new Set(settled.map(({ published }) => published?.id)).size, 4);
});

test('a token is renewed before it expires', async () => {
  const { clock, advance } = createClock();
  const publisher = open({ clock });
  for (const id of [1, 2]) await publisher.publish(storeId, order(id));
  assert.equal(gate.tokens, 1);
  // The lifetime is two hours.
  advance(7_100_000);
  await publisher.publish(storeId, order(3));
  assert.deepEqual([gate.tokens, gate.posts.length], [2, 3]);
});

test('a token that the server refuses is renewed once', async () => {
  const publisher = open();
  await publisher.publish(storeId, order(1));
  await sql`delete from access_token`;
  await publisher.publish(storeId, order(2));
  assert.deepEqual([gate.tokens, gate.posts.length], [2, 3]);
  assert.deepEqual(await publishedIds(), [1, 2]);
});

test('wrong credentials, an unknown store and another server are reported as such', async () => {
  const codeOf = async (publisher: Publisher, store: number | string = storeId) => {
    const [settled] = await publishAll(publisher, [order(1)], store as number);
    return [settled?.error?.code, settled?.error?.mayBePublished];
  };
  assert.deepEqual(await codeOf(open({ clientSecret: 'wrong' })), ['unauthorized', false]);
  assert.deepEqual(await codeOf(open(), 999_999), ['no_store', false]);
  assert.deepEqual(await codeOf(open(), '../users'), ['no_store', false]);
  withFate(...range(gate.posts.length + 1).map(() => 'page' as const));
  assert.deepEqual(await codeOf(open()), ['unexpected', true]);
  assert.deepEqual(await publishedIds(), []);
});

test('a response with more than 8 MiB is not read to its end', async () => {
  gate.fate = () => 'long';
  const [settled] = await publishAll(open(), [order(1)]);
  assert.deepEqual([settled?.error?.code, settled?.error?.mayBePublished], ['unexpected', true]);
});

test('after the deadline an event is rejected, with whether it may be published', async () => {
  const { clock } = createClock();
  gate.fate = () => 'busy';
  const [busy] = await publishAll(open({ clock, deadlineMs: 10_000 }), [order(1)]);
  assert.deepEqual([busy?.error?.code, busy?.error?.mayBePublished], ['unavailable', false]);
  gate.fate = () => 'lost';
  const [lost] = await publishAll(open({ clock, deadlineMs: 10_000 }), [order(1)]);
  assert.deepEqual([lost?.error?.code, lost?.error?.mayBePublished], ['unavailable', true]);
  const hanging = open({ clock, deadlineMs: 150, requestTimeoutMs: 50 });
  gate.fate = () => 'held';
  const [held, late] = await Promise.all([publishAll(hanging, [order(1)]), publishAll(hanging, [order(2)])]);
  assert.deepEqual([codesOf(held), codesOf(late)], [['unavailable'], ['unavailable']]);
});

const isToken: (input: string | URL | Request) => boolean = (input) =>
  typeof input === 'string' && input.endsWith('/token');

test('an event is not published if the connection was refused', async () => {
  const { clock } = createClock();
  const closed = createPublisher({
    baseUrl: `http://127.0.0.1:${await freePort()}`,
    clientId: 'id',
    clientSecret: 'secret',
    deadlineMs: 1_000,
    clock,
    // The server ends after it has issued a token.
    fetch: async (input, init) =>
      isToken(input) ? Response.json({ access_token: 't', expires_in: 3600 }) : fetch(input, init),
  });
  const [settled] = await publishAll(closed, [order(1)]);
  assert.deepEqual([settled?.error?.code, settled?.error?.mayBePublished], ['unavailable', false]);
});

test('no part of a divided request overtakes one for which the server is not available', async () => {
  const { clock } = createClock();
  const sent: number[] = [];
  const publisher = open({
    clock,
    deadlineMs: 1_000,
    fetch: async (input, init) => {
      if (isToken(input)) return fetch(input, init);
      const events = JSON.parse(init?.body as string) as { resource: { id: number } }[];
      sent.push(...events.map(({ resource }) => resource.id));
      // A proxy limits the size; then the server is down.
      return new Response(null, { status: events.length > 1 ? 413 : 503 });
    },
  });
  const settled = await publishAll(publisher, [order(1), order(2)]);
  assert.deepEqual(codesOf(settled), ['unavailable', 'unavailable']);
  assert.deepEqual(
    sent.filter((id) => id === 2),
    [2],
  );
});

test('events with keys of their own are published once, also by another publisher and in one array', async () => {
  const keyed = (id: number) => ({ ...order(id), idempotency_key: `order-${id}` });
  const mixed: EventInput[] = [keyed(1), keyed(1), order(2), keyed(3), { ...order(4), idempotency_key: null }];
  const first = await publishAll(open(), mixed);
  assert.deepEqual(
    codesOf(first),
    mixed.map(() => undefined),
  );
  assert.deepEqual(await publishedIds(), [1, 2, 3, 4]);
  for (const { key, body } of gate.posts) {
    const keys = (JSON.parse(body) as { idempotency_key?: string | null }[]).map((event) => event.idempotency_key);
    assert.ok(
      keys.every((own) => (typeof own === 'string') === (key === undefined)),
      body,
    );
  }
  const again = await publishAll(open(), [keyed(3), keyed(5), { ...order(6), idempotency_key: 'order-1' }]);
  assert.deepEqual(codesOf(again), [undefined, undefined, 'refused']);
  assert.deepEqual(again[0]?.published?.id, first[3]?.published?.id);
  assert.deepEqual(await publishedIds(), [1, 2, 3, 4, 5]);
});

test('an aborted event is not sent, unless it is being sent already', async () => {
  const publisher = open({ batchEvents: 1, waitingEvents: 2 });
  gate.fate = () => 'held';
  const abort = new AbortController();
  const sent = publisher.publish(storeId, order(1), { signal: abort.signal });
  const others = range(3).map((n) => publisher.publish(storeId, order(2 + n), { signal: abort.signal }));
  const last = publisher.publish(storeId, order(9));
  await until(
    async () => gate.posts.length,
    (count) => count === 1,
  );
  abort.abort();
  for (const other of others) await assert.rejects(other, { name: 'AbortError' });
  await assert.rejects(publisher.publish(storeId, order(5), { signal: abort.signal }), { name: 'AbortError' });
  gate.release();
  await Promise.all([sent, last]);
  assert.deepEqual(await publishedIds(), [1, 9]);
  assert.deepEqual(publisher.waiting, { events: 0, bytes: 0 });
});

test('close publishes all events; with an aborted signal it rejects those that remain', async () => {
  const publisher = open({ batchEvents: 2, waitingEvents: 4, delayMs: 60_000 });
  const settled = publishAll(
    publisher,
    range(9).map((id) => order(id)),
  );
  await publisher.close();
  assert.deepEqual(
    codesOf(await settled),
    range(9).map(() => undefined),
  );
  assert.deepEqual(codesOf(await publishAll(publisher, [order(9)])), ['closed']);
  const stuck = open({ batchEvents: 2, waitingEvents: 4 });
  gate.fate = () => 'held';
  const before = gate.posts.length;
  const rest = publishAll(
    stuck,
    range(9).map((id) => order(20 + id)),
  );
  await until(
    async () => gate.posts.length,
    (count) => count > before,
  );
  const abort = new AbortController();
  const closing = stuck.close({ signal: abort.signal });
  abort.abort();
  await closing;
  const errors = (await rest).map(({ error }) => [error?.code, error?.mayBePublished]);
  assert.deepEqual(
    errors,
    range(9).map((n) => ['closed', n < 2]),
  );
});

test('an invalid option is named', () => {
  assert.throws(() => open({ baseUrl: 'shop' }), /baseUrl/);
  assert.throws(() => open({ clientSecret: '' }), /clientSecret/);
  assert.throws(() => open({ batchEvents: 1_001 }), /batchEvents.*1000/);
  assert.throws(() => open({ delayMs: Number.NaN }), /delayMs/);
});

const FATES: readonly Fate[] = ['busy', 'failed', 'refused', 'lost', undefined];

test('whatever fails, each accepted event exists once and in order, and each refused one not at all', async () => {
  const plan = fc.record({
    fates: fc.array(fc.constantFrom(...FATES), { maxLength: 16 }),
    bad: fc.array(fc.nat(23), { maxLength: 5 }),
    batchEvents: fc.integer({ min: 1, max: 8 }),
    waitingEvents: fc.integer({ min: 1, max: 12 }),
  });
  await fc.assert(
    fc.asyncProperty(plan, async ({ fates, bad, batchEvents, waitingEvents }) => {
      const stores = [await newStore(), await newStore()];
      const begin = gate.posts.length;
      gate.fate = (n) => fates[n - begin];
      const { clock } = createClock();
      const publisher = open({ clock, batchEvents, waitingEvents, delayMs: 0, deadlineMs: 23 * 3_600_000 });
      const events = range(24).map((id) => ({
        event: bad.includes(id) ? 'x/y' : 'transaction/created',
        resource: { id },
      }));
      const settled = await Promise.all(stores.map((store) => publishAll(publisher, events, store)));
      const good = range(24).filter((id) => !bad.includes(id));
      for (const [at, store] of stores.entries()) {
        const found = await publishedIds(store);
        assert.deepEqual(found, good);
        const ids = settled[at]?.flatMap(({ published }) => published?.id ?? []);
        assert.equal(new Set(ids).size, good.length);
        assert.deepEqual(
          settled[at]?.flatMap(({ error }, id) => (error?.code === 'refused' ? [id] : [])),
          range(24).filter((id) => bad.includes(id)),
        );
      }
      assert.equal(gate.overlaps, 0);
    }),
    { numRuns: 12 },
  );
});

test('a loader has a result for each version, and a refused one affects no other', async () => {
  const loader = createLoader({
    baseUrl: gate.url,
    clientId: platform.client_id,
    clientSecret: platform.client_secret,
  });
  const resource = (id: number) => ({ id, date_modified: '2022-01-01T00:00:00Z' });
  const versions = [
    { type: 'transaction', resource: resource(1) },
    { type: 'order', resource: resource(2) },
    '{"type":"transaction","resource":{"id":3,"total":12.50}}',
    { type: 'transaction', resource: resource(1) },
  ];
  gate.fate = (n) => (n === 0 ? 'lost' : undefined);
  const settled = Promise.allSettled(versions.map((version) => loader.load(storeId, version)));
  await loader.close();
  const results = (await settled).map((one) =>
    one.status === 'fulfilled'
      ? [one.value.result, one.value.warnings.map(({ code }) => code)]
      : [(one.reason as PublishError).code, (one.reason as PublishError).faults.map(({ field }) => field)],
  );
  // The first request, whose response was lost, has loaded them.
  assert.deepEqual(results, [
    ['kept', []],
    ['refused', ['type']],
    ['kept', []],
    ['kept', []],
  ]);
  assert.equal(gate.posts.length, 2);
  assert.ok(gate.posts.every(({ key }) => key === undefined));
});

test('a loader with dryRun writes nothing', async () => {
  const credentials = { baseUrl: gate.url, clientId: platform.client_id, clientSecret: platform.client_secret };
  const loader = createLoader({ ...credentials, dryRun: true });
  for (const result of ['loaded', 'loaded'])
    assert.equal((await loader.load(storeId, { type: 'transaction', resource: { id: 4 } })).result, result);
  await loader.close();
});

test('with closeAtRejected a loader loads nothing after the request with the refused version', async () => {
  const loader = createLoader({
    baseUrl: gate.url,
    clientId: platform.client_id,
    clientSecret: platform.client_secret,
    closeAtRejected: true,
    batchEvents: 2,
  });
  const types = ['transaction', 'order', 'transaction', 'transaction'];
  const settled = Promise.allSettled(types.map((type, id) => loader.load(storeId, { type, resource: { id } })));
  await loader.close();
  const results = (await settled).map((one) =>
    one.status === 'fulfilled' ? one.value.result : (one.reason as PublishError).code,
  );
  assert.deepEqual(results, ['loaded', 'refused', 'closed', 'closed']);
  assert.equal(gate.posts.length, 1);
});

test('a version that is no object is refused with what to send', async () => {
  const loader = createLoader({ baseUrl: gate.url, clientId: 'a', clientSecret: 'b' });
  await assert.rejects(loader.load(storeId, '[]'), /must be an object: { "type": "transaction", /);
  await loader.close();
});
