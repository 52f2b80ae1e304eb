/**
 * The lists of deliveries, attempts and events beside a model that filters and sorts arrays: over days that are counted and days that
 * are not, pages from both ends, and days that are dropped.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Arbitrary, array, assert as checkProperty, asyncProperty, boolean, constant, constantFrom, integer, nat, oneof, record, tuple } from 'fast-check';
import { countTabs } from '#dashboard/lists-sql.ts';
import { countDays } from '#db/day-counts.ts';
import { createMissing, maintainPartitions } from '#db/partitions.ts';
import { openPool } from '#db/pool.ts';
import { listEvents } from '#events/events-sql.ts';
import { SAMPLE_ID } from '#events/publish/test-event.ts';
import { dailyIdOf, dayOf, firstIdOfDay, startOfDay } from '#core/ids.ts';
import { conditionsOf, RANGES, type Condition, type Filter, type Listing, type Order } from '#core/listing.ts';
import type { Owner } from '#webhooks/history/history-sql.ts';
import { listAttempts } from '#webhooks/history/statuses-sql.ts';
import { listDeliveries, listDeliveriesOfStore } from '#webhooks/history/deliveries-sql.ts';
import { amountOf } from '../setup/amount.ts';
import { testDatabase } from '../setup/database.ts';

const RUNS = amountOf('lists-model', { all: 60, part: 20 });
const SAMPLE = String(SAMPLE_ID);
const CUSTOMER = 'C';
const DAYS = 6;
const [SHARD, STORE, WEBHOOK, OTHER] = [7, 256 + 7, 512 + 7, 768 + 7];
const SUBSCRIBED = 'transaction/created';
const TODAY = dayOf(new Date());
const FIRST = TODAY - DAYS + 1;

const { address } = await testDatabase();
const sql = openPool(address, { connections: 2, applicationName: 'test-lists' });
await createMissing(sql, FIRST + 1, DAYS + 2);
await sql`
  insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
  values (${SHARD}, ${STORE}, 'S', 's.example.com', 's@example.com', 'UTC', now(), now())`;
for (const id of [WEBHOOK, OTHER])
  await sql`
    insert into webhook (shard, id, store_id, name, format, version, encryption_key, event_resource, events, is_active, headers, retry_profile,
      date_created, date_modified)
    values (${SHARD}, ${id}, ${STORE}, 'W', 'json', '2', 'k', 'transaction', ${[SUBSCRIBED]}, true, '{}', 'hour', now(), now())`;

type Delivery = {
  id: number;
  eventId: number;
  webhookId: number;
  status: 'pending' | 'successful' | 'failed';
  attempts: number;
  resource: string;
  action: string;
  at: Date;
  /** Of the last attempt. */
  code: number | null;
  body: string | null;
};
type Attempt = { id: number; n: number; webhookId: number; resource: string; action: string; at: Date };
type World = {
  events: { id: number; resource: string; action: string; at: Date }[];
  deliveries: Delivery[];
  attempts: Attempt[];
};

const typeOf = (resource: string): string => (resource === CUSTOMER ? 'customer' : 'transaction');

/** One event with its deliveries. `lateDays`: days after the event on which its second delivery is made, as by a resend. */
const publishedEvent = record({
  day: nat(DAYS - 1),
  // A test delivery's event belongs to no resource.
  resource: constantFrom('A', 'B', CUSTOMER, '1234', SAMPLE),
  action: constantFrom('created', 'modified'),
  // Ids of blocks that are used at the same time are not in the order of dates.
  laterHours: constantFrom(0, 0, 1, 7),
  isErasedAfter: constantFrom(false, false, false, true),
  deliveries: array(
    record({
      isOther: boolean(),
      status: constantFrom('pending', 'successful', 'failed'),
      attempts: nat(3),
      lateDays: constantFrom(0, 0, 0, 1, 3),
    }),
    { maxLength: 3 },
  ),
});
/** Hours and minutes around the events of a day, some of which have an event in the same second. */
const time = tuple(integer({ min: 0, max: DAYS }), constantFrom(-1, 0, 1, 5, 8), constantFrom(0, 1, 2)).map(
  ([day, hours, minutes]) => startOfDay(FIRST + day).getTime() + (hours * 60 + minutes) * 60_000,
);
const dateFilter = (operator: Condition['operator'], atMs: number): Condition => ({
  property: 'date_created',
  operator,
  value: new Date(atMs),
});
const oneOf = (value: readonly Condition[]): Filter => ({
  property: value[0]?.property ?? '',
  operator: 'in',
  value,
});
const OF_DELIVERY: readonly Filter[] = [
  ...['pending', 'successful', 'failed'].map((value) => ({ property: 'status', operator: 'is', value }) as const),
  ...[0, 1, 2].map((value) => ({ property: 'attempts', operator: 'greaterthan', value }) as const),
  ...[200, 404, 500, null].map((value) => ({ property: 'response_code', operator: 'is', value }) as const),
  ...['*stock*', 'out of *'].map((value) => ({ property: 'response_body', operator: 'like', value }) as const),
  ...['1', '0'].map((value) => ({ property: 'not_arrived', operator: 'is', value }) as const),
];
const anyFilter: Arbitrary<Filter> = oneof(
  { arbitrary: constantFrom(...OF_DELIVERY), weight: 5 },
  // Events are in the first hours of a day.
  tuple(constantFrom(...RANGES), time).map(([operator, atMs]) => dateFilter(operator, atMs)),
  array(time, { minLength: 1, maxLength: 3 }).map((times) => oneOf(times.map((atMs) => dateFilter('is', atMs)))),
);
const isValue = (property: string, value: string): Condition => ({ property, operator: 'is', value });
const ofKind: Arbitrary<Filter> = oneof(
  tuple(constantFrom('is', 'not'), constantFrom('transaction/created', 'transaction/modified', 'customer/created')).map(
    ([operator, value]) => ({ property: 'event', operator, value }) as const,
  ),
  constantFrom('transaction/*', '*/created').map((value) => ({ property: 'event', operator: 'like', value }) as const),
  array(constantFrom('transaction/created', 'customer/created', 'customer/modified'), { minLength: 1 }).map((all) =>
    oneOf(all.map((value) => isValue('event', value))),
  ),
  constantFrom('transaction', 'customer').map((value) => isValue('resource_type', value)),
);
const ofResource: Arbitrary<Filter[]> = oneof(
  constantFrom('A', 'B', '1234', SAMPLE, 'none').map((id) => [isValue('resource_id', id)]),
  constantFrom('A', 'B').map((id) => [isValue('resource_id', id), isValue('resource_type', 'transaction')]),
);
const anyOrder: Arbitrary<readonly Order[]> = oneof(
  constant([]),
  tuple(constantFrom('id', 'date_created', 'attempts', 'response_code'), boolean()).map(([property, descending]) => [
    { property, descending },
  ]),
);
const request = record({
  filters: tuple(
    oneof(constant([]), ofResource, array(ofKind, { maxLength: 2 })),
    array(anyFilter, { maxLength: 2 }),
  ).map((filters) => filters.flat()),
  order: anyOrder,
  offset: nat(25),
  limit: integer({ min: 1, max: 7 }),
});

async function fill(made: readonly PublishedEvent[]): Promise<World> {
  for (const table of [
    'event',
    'delivery',
    'delivery_done',
    'attempt',
    'day_count',
    'day_kind_count',
    'resource',
    'erased_resource',
  ])
    await sql`delete from ${sql(table)}`;
  const world: World = { events: [], deliveries: [], attempts: [] };
  let n = 0;
  for (const { day, resource, action, laterHours, isErasedAfter, deliveries } of made.toSorted(
    (a, b) => a.day - b.day,
  )) {
    const number = (n += 1);
    const id = dailyIdOf(FIRST + day, number, SHARD);
    const at = new Date(startOfDay(FIRST + day).getTime() + number * 60_000 + laterHours * 3_600_000);
    const event = { id, resource, action, at };
    world.events.push(event);
    await publish(event);
    if (isErasedAfter) await erase(resource);
    for (const { isOther, status, attempts, lateDays } of deliveries) {
      const delivery = {
        id: dailyIdOf(Math.min(TODAY, FIRST + day + lateDays), (n += 1), SHARD),
        eventId: id,
        webhookId: isOther ? OTHER : WEBHOOK,
        status,
        attempts,
        resource,
        action,
        at,
        ...(attempts === 0 ? { code: null, body: null } : responseOf(number, attempts, status)),
      };
      world.deliveries.push(delivery);
      await insert(delivery, world);
    }
  }
  return world;
}

/** Writes the event as a publish does, as the head of the chain of its resource, or as a sample, which is in no chain. */
async function publish({ id, resource, action, at }: World['events'][number]): Promise<void> {
  // Publishers may use the id of samples.
  const isSample = resource === SAMPLE && at.getUTCMinutes() % 2 === 0;
  const [previous] = isSample
    ? []
    : await sql<{ id: number | null }[]>`
        insert into resource as r (shard, store_id, type, id, version, modified_at, event_id, head_event_id, time_zone, base_url, body)
        values (${SHARD}, ${STORE}, ${typeOf(resource)}, ${resource}, 1, ${at}, ${id}, ${id}, 'UTC', '', '{}')
        on conflict (shard, store_id, type, id) do update set head_event_id = ${id}, superseded_event_id = r.head_event_id
        returning superseded_event_id as id`;
  await sql`
    insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, previous_id, time_zone, base_url,
      date_created, body)
    values (${SHARD}, ${id}, ${STORE}, ${typeOf(resource)}, ${resource}, ${action}, 1, 1, ${previous?.id ?? null}, 'UTC', '', ${at}, '{}')`;
}

async function erase(resource: string): Promise<void> {
  await sql`
    with gone as (delete from resource where id = ${resource} returning version)
    insert into erased_resource (shard, store_id, type, id, version)
    select ${SHARD}, ${STORE}, ${typeOf(resource)}, ${resource}, version from gone on conflict do nothing`;
}

/** Response of an attempt; null for one without. */
function responseOf(n: number, attempt: number, status: Delivery['status']): Pick<Delivery, 'code' | 'body'> {
  if (status === 'successful') return { code: 200, body: 'ok' };
  const code = [404, 500, null][(n + attempt) % 3] ?? null;
  return { code, body: code === null ? null : code === 404 ? 'no such order' : 'out of Stock' };
}

/** With the last attempt in the row of the delivery, unless an older version ended it: then all are in `attempt`. */
async function insert(
  { id, eventId, webhookId, status, attempts, resource, action, at, code, body }: Delivery,
  world: World,
): Promise<void> {
  const isOld = id % 3 === 0;
  const timeOf = (n: number) => new Date(at.getTime() + (id % 1_000) + n * 1_000);
  for (let n = 1; n <= attempts; n += 1) {
    world.attempts.push({ id, n, webhookId, resource, action, at: timeOf(n) });
    if (status === 'pending' || isOld || n < attempts)
      await sql`
        insert into attempt (shard, delivery_id, n, store_id, webhook_id, event_id, date_started, duration_ms, outcome, response_code,
          response_body)
        values (${SHARD}, ${id}, ${n}, ${STORE}, ${webhookId}, ${eventId}, ${timeOf(n)}, 1, 'refused', ${n === attempts ? code : 503},
          ${n === attempts ? body : 'stock'})`;
  }
  if (status === 'pending')
    await sql`
      insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, attempts, due_at)
      values (${SHARD}, ${id}, ${STORE}, ${webhookId}, 0, ${eventId}, ${attempts}, ${at})`;
  else {
    const last = isOld || attempts === 0 ? null : timeOf(attempts);
    await sql`
      insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended, date_started, outcome, response_code,
        response_body)
      values (${SHARD}, ${id}, ${STORE}, ${webhookId}, ${eventId}, ${status}, ${attempts}, ${at}, ${last}, ${last === null ? null : 'refused'},
        ${last === null ? null : code}, ${last === null ? null : body})`;
  }
}

/** Nothing is sent again here, which is in not-arrived.test.ts. */
const hasNotArrived = ({ status, resource, action }: Partial<Delivery> & Pick<Delivery, 'resource' | 'action'>) =>
  status === 'failed' && `${typeOf(resource)}/${action}` === SUBSCRIBED;

const matches =
  (filters: readonly Filter[]) =>
  (row: Partial<Delivery> & Pick<Delivery, 'resource' | 'action' | 'at'>): boolean =>
    filters.every((filter) => conditionsOf(filter).some((condition) => isMet(condition, row)));

function isMet(
  { property, operator, value }: Condition,
  row: Partial<Delivery> & Pick<Delivery, 'resource' | 'action' | 'at'>,
): boolean {
  if (property === 'resource_id') return row.resource === value;
  if (property === 'resource_type') return typeOf(row.resource) === value;
  if (property === 'event') {
    const kind = `${typeOf(row.resource)}/${row.action}`;
    if (operator === 'like')
      return String(value).startsWith('*')
        ? kind.endsWith(String(value).slice(1))
        : kind.startsWith(String(value).slice(0, -1));
    return (kind === value) === (operator === 'is');
  }
  if (property === 'status') return row.status === value;
  if (property === 'not_arrived') return hasNotArrived(row) === (value === '1');
  if (property === 'attempts') return (row.attempts ?? 0) > Number(value);
  if (property === 'response_code') return row.code === value;
  if (property === 'response_body') {
    const body = row.body?.toLowerCase() ?? '';
    return value === '*stock*' ? body.includes('stock') : body.startsWith('out of ');
  }
  // Dates are compared to the second.
  const [second, limit] = [Math.floor(row.at.getTime() / 1_000), Math.floor((value as Date).getTime() / 1_000)];
  if (operator === 'is') return second === limit;
  if (operator === 'greaterthan' || operator === 'lessthan')
    return operator === 'greaterthan' ? second > limit : second < limit;
  return operator === 'greaterthanorequal' ? second >= limit : second <= limit;
}

type Sorted = Partial<Delivery> & { n?: number } & Pick<Delivery, 'id' | 'resource' | 'action' | 'at'>;

function pageOf<Row extends Sorted>(
  rows: readonly Row[],
  { filters, order: wanted, offset, limit }: Listing,
  byDefault: Order,
) {
  const found = rows.filter(matches(filters));
  const [{ property, descending } = byDefault] = wanted;
  // Null sorts as the greatest value.
  const key = ({ id, attempts = 0, code = null, at }: Row): number =>
    ({ id, attempts, response_code: code ?? Number.MAX_VALUE })[property] ?? at.getTime();
  const sign = descending ? -1 : 1;
  found.sort((a, b) => sign * (key(a) - key(b) || a.id - b.id || (a.n ?? 0) - (b.n ?? 0)));
  return { total: found.length, rows: found.slice(offset, offset + limit) };
}

const owner: Owner = { shard: SHARD, storeId: STORE, id: WEBHOOK, epoch: 0, heldUntil: null };
/** Both webhooks of the store. */
const owners = [owner, { ...owner, id: OTHER }];
const isOwn = ({ webhookId }: { webhookId: number }): boolean => webhookId === WEBHOOK;

async function compare(world: World, asked: Listing): Promise<void> {
  const deliveries = await listDeliveries(sql, owner, asked);
  const byId = { property: 'id', descending: true };
  const expected = pageOf(world.deliveries.filter(isOwn), asked, byId);
  assert.deepEqual(
    { total: deliveries.total, ids: deliveries.rows.map(({ id }) => id) },
    { total: expected.total, ids: expected.rows.map(({ id }) => id) },
  );
  const ofStore = await listDeliveriesOfStore(sql, { shard: SHARD, storeId: STORE }, owners, asked);
  const ofBoth = pageOf(world.deliveries, asked, byId);
  assert.deepEqual(
    { total: ofStore.total, ids: ofStore.rows.map(({ id, webhookId }) => `${webhookId} ${id}`) },
    { total: ofBoth.total, ids: ofBoth.rows.map(({ id, webhookId }) => `${webhookId} ${id}`) },
  );
  const ofDeliveries = new Set(['status', 'attempts', 'response_code', 'response_body', 'not_arrived']);
  const ofDates = asked.filters.filter(({ property }) => !ofDeliveries.has(property));
  const byDate = { property: 'date_created', descending: true };
  const dated = {
    ...asked,
    filters: ofDates,
    order: asked.order.filter(({ property }) => property === 'date_created'),
  };
  const attempts = await listAttempts(sql, owner, dated);
  const tried = pageOf(world.attempts.filter(isOwn), dated, byDate);
  assert.deepEqual(
    { total: attempts.total, ids: attempts.rows.map(({ deliveryId, n }) => `${deliveryId}-${n}`) },
    { total: tried.total, ids: tried.rows.map(({ id, n }) => `${id}-${n}`) },
  );
  const events = await listEvents(sql, { shard: SHARD, storeId: STORE }, dated, null);
  const published = pageOf(world.events, dated, byDate);
  assert.deepEqual(
    { total: events?.total, ids: events?.rows.map(({ id }) => id) },
    { total: published.total, ids: published.rows.map(({ id }) => id) },
  );
}

/** The counts of the tabs of both lists. */
async function compareCounts({ deliveries }: World): Promise<void> {
  for (const webhookId of [WEBHOOK, undefined]) {
    const listed = deliveries.filter((one) => webhookId === undefined || isOwn(one));
    const of = (isCounted: (one: Delivery) => boolean) => ({ count: listed.filter(isCounted).length, isMore: false });
    assert.deepEqual(await countTabs(sql, { shard: SHARD, storeId: STORE, webhookId }), {
      all: of(() => true),
      queued: of(({ status, attempts }) => status === 'pending' && attempts === 0),
      retrying: of(({ status, attempts }) => status === 'pending' && attempts > 0),
      notArrived: of(hasNotArrived),
      delivered: of(({ status }) => status === 'successful'),
    });
  }
}

type PublishedEvent = typeof publishedEvent extends Arbitrary<infer T> ? T : never;
const eventOf = (day: number, delivery: PublishedEvent['deliveries'][number]): PublishedEvent => ({
  day,
  resource: 'A',
  action: 'created',
  laterHours: 0,
  isErasedAfter: false,
  deliveries: [delivery],
});
const count = () => countDays(sql, { shards: [SHARD], first: FIRST, now: new Date(), mayContinue: () => true });

const page = { offset: 0, limit: 7, filters: [], order: [] };
const once = { isOther: false, status: 'successful', attempts: 1, lateDays: 0 } as const;
/** What a random run rarely has. */
const EXAMPLES: [PublishedEvent[], Listing[]][] = [
  // The later id has the earlier date.
  [
    [{ ...eventOf(0, once), laterHours: 7 }, eventOf(0, once)],
    [
      { ...page, filters: [dateFilter('greaterthan', startOfDay(FIRST).getTime() + 3_600_000)] },
      { ...page, filters: [dateFilter('lessthan', startOfDay(FIRST).getTime() + 3_600_000)] },
    ],
  ],
  // The page ends in the middle of a longer list.
  [Array.from({ length: 12 }, () => eventOf(DAYS - 1, once)), [{ ...page, offset: 4 }]],
  // A delivery that was resent on a later day is between others of its kind.
  [
    [eventOf(0, once), eventOf(0, { ...once, lateDays: 1 }), eventOf(2, once)],
    [0, 1, 2].map((offset) => ({ offset, limit: 1, filters: [isValue('event', 'transaction/created')], order: [] })),
  ],
  // Of a successful and a failed delivery the first has the code of the filter.
  [
    [eventOf(0, once), eventOf(0, { ...once, status: 'failed' })],
    [{ ...page, filters: [{ property: 'response_code', operator: 'is', value: 200 }] }],
  ],
];

test('pages, totals and filters are those of a model, before and after the ended days are counted', async () => {
  const requests = array(request, { minLength: 4, maxLength: 4 });
  await checkProperty(
    asyncProperty(array(publishedEvent, { maxLength: 14 }), requests, async (made, asked) => {
      const world = await fill(made);
      for (const one of asked) await compare(world, one);
      await compareCounts(world);
      await count();
      for (const one of asked) await compare(world, one);
      await compareCounts(world);
    }),
    { numRuns: RUNS, examples: EXAMPLES },
  );
});

test('any two filters of deliveries are those of the model, and no row is selected by filters that exclude each other', async () => {
  const world = await fill([
    eventOf(0, { ...once, status: 'pending', attempts: 0 }),
    eventOf(0, { ...once, status: 'pending', attempts: 2 }),
    eventOf(0, { ...once, status: 'successful', attempts: 1 }),
    eventOf(1, { ...once, status: 'successful', attempts: 2 }),
    eventOf(1, { ...once, status: 'failed', attempts: 0 }),
    eventOf(1, { ...once, status: 'failed', attempts: 2 }),
  ]);
  await count();
  for (const [at, one] of OF_DELIVERY.entries())
    for (const other of OF_DELIVERY.slice(at)) await compare(world, { ...page, filters: [one, other] });
});

test('events of test deliveries are found beside those of a resource that has the id of samples', async () => {
  const published = {
    day: 0,
    resource: SAMPLE,
    action: 'created' as const,
    laterHours: 0 as const,
    isErasedAfter: false,
    deliveries: [],
  };
  await fill([published, published]);
  const [resource] = await sql<{ rows: number }[]>`select count(*) as rows from resource`;
  assert.equal(resource?.rows, 1);
  const filters = [isValue('resource_id', SAMPLE)];
  const found = await listEvents(
    sql,
    { shard: SHARD, storeId: STORE },
    { filters, order: [], offset: 0, limit: 9 },
    null,
  );
  assert.equal(found?.total, 2);
});

test('a day with a pending delivery, and the days after it, are counted when the delivery has ended', async () => {
  const world = await fill([eventOf(0, once), eventOf(1, { ...once, status: 'pending' }), eventOf(2, once)]);
  const counted = async () => {
    const rows = await sql<{ day: number }[]>`
      select day from day_count where owner_id = ${WEBHOOK} and list = 'delivery' order by day`;
    return rows.map(({ day }) => day - FIRST);
  };
  await count();
  assert.deepEqual(await counted(), [0]);
  const waiting = world.deliveries.find(({ status }) => status === 'pending');
  if (waiting === undefined) throw new Error('No pending delivery');
  await sql`delete from delivery where id = ${waiting.id}`;
  await sql`
    insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended)
    values (${SHARD}, ${waiting.id}, ${STORE}, ${WEBHOOK}, ${waiting.eventId}, 'failed', 1, now())`;
  await count();
  assert.deepEqual(await counted(), [0, 1, 2]);
  const { total } = await listDeliveries(sql, owner, { filters: [], order: [], offset: 0, limit: 1 });
  assert.equal(total, 3);
});

test('the last two days are never counted', async () => {
  await fill([DAYS - 3, DAYS - 2, DAYS - 1].map((day) => eventOf(day, once)));
  await count();
  const rows = await sql<{ day: number }[]>`select distinct day from day_count where owner_id > 0`;
  assert.deepEqual(
    rows.map(({ day }) => day - FIRST),
    [DAYS - 3],
  );
});

test('deliveries of dropped events have no date', async () => {
  await fill([0, 1].map((day) => eventOf(day, { ...once, lateDays: 3 })));
  await sql`delete from event where id < ${firstIdOfDay(FIRST + 1)}`;
  const startOf = (day: number): number => startOfDay(day).getTime();
  for (const filter of [dateFilter('greaterthan', startOf(FIRST - 1)), dateFilter('lessthan', startOf(TODAY))]) {
    const { total, rows } = await listDeliveries(sql, owner, { filters: [filter], order: [], offset: 0, limit: 9 });
    assert.deepEqual([total, rows.length], [1, 1]);
  }
});

test('the counts of a day are deleted with its partitions', async () => {
  await fill([0, 1, 2].map((day) => eventOf(day, once)));
  await count();
  await sql`select setval(${`event_n_d${TODAY}`}::regclass, 256)`;
  const retentionDays = TODAY - FIRST - 2;
  await maintainPartitions(sql, { now: new Date(), retentionDays, daysAhead: 1 });
  for (const filters of [[], [isValue('event', 'transaction/created')]]) {
    const { total, rows } = await listDeliveries(sql, owner, { filters, order: [], offset: 0, limit: 9 });
    assert.deepEqual([total, rows.length], [1, 1]);
    assert.ok((rows[0]?.id ?? 0) >= firstIdOfDay(FIRST + 2));
  }
  await sql.end();
});
