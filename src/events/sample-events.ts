/** Sample events: for test deliveries, and in sandbox stores. */
import { closedObject } from '#http/inputs.ts';
import { randomInt } from 'node:crypto';
import type { Runtime } from '#runtime/runtime.ts';
import { Type, type Static } from 'typebox';
import { scenarioEvents, scenarios, type Scenario, sampleResource } from '#catalog/sample.ts';
import { accepting, type Operation } from '#http/operation.ts';
import type { Keys } from '#core/keys.ts';
import { invalid, notFound, Problem, type Fault, temporary } from '#core/problem.ts';
import { storeOfAddress } from '#core/principal.ts';
import type { Sql, Queryable } from '#db/pool.ts';
import { addressOfEvents, eventDocument, publishedDocument } from './operations.ts';
import { isSandbox, SAMPLE_ID } from './events-sql.ts';
import { keyOfRequest, validateKeys } from './publish/key.ts';
import type { Publisher } from './publish/publish.ts';
import { readPublish } from './publish/publish-request.ts';
import { bareKindOf, declarationOf, isInternal, type ResourceType, testAction } from '#catalog/catalog.ts';
import { formatDate } from '#hypermedia/date.ts';
import { dayOf, shardOf } from '#core/ids.ts';
import type { IdAllocator } from '#db/partitions.ts';
import { idAt, nextNonce } from './publish/rows.ts';
import { insertPullSample, insertSample, type SampleEvent } from './publish/publish-sql.ts';

// The sample event of a test delivery: `<resource>/test`, with generated data that is marked as a sample.

/**
 * What a sample is about. `action`: the action it is sent under, such as `created`; null for `test`. `clientId`: the app that a sample of
 * `app` names; null for one that does not exist.
 */
export type SampleAbout = {
  storeId: number;
  clientId: string | null;
  type: ResourceType;
  action: string | null;
  timeZone: string;
  now: Date;
};

/** Internal events share their id with their resource. */
const idOf = (type: ResourceType, eventId: number): number =>
  isInternal(type) || type === 'subscription_event' ? eventId : SAMPLE_ID;

async function keep(tx: Queryable, event: SampleEvent): Promise<void> {
  if (!(await insertSample(tx, event, shardOf(event.storeId)))) throw notFound('store');
}

export function createSamples({ sql, allocateIds, baseUrl }: { sql: Sql; allocateIds: IdAllocator; baseUrl: string }) {
  return {
    /** Makes a sample event without writing it. */
    make: async ({ storeId, clientId, type, action, timeZone, now }: SampleAbout): Promise<SampleEvent> => {
      const eventId = idAt(await allocateIds(sql, { day: dayOf(now), shards: [shardOf(storeId)] }), 0);
      const { id: shownId, ...sample } = sampleResource(type);
      const isBare = action !== null && bareKindOf(type, action) !== undefined;
      const { _embedded, ...properties } = isBare ? {} : sample;
      const id = idOf(type, eventId);
      // The schema of the operator may allow texts only as ids, and another format of dates.
      const isOfOperator = declarationOf(type)?.example !== undefined;
      const dates = Object.fromEntries(
        ['date_created', 'date_modified']
          .filter((name) => name in properties && !isOfOperator)
          .map((name) => [name, formatDate(now, timeZone)]),
      );
      const named = type === 'app' ? { store_id: storeId, ...(clientId !== null && { client_id: clientId }) } : {};
      return {
        id: eventId,
        storeId,
        type,
        resourceId: String(id),
        action: testAction(action),
        // It is not a version of any resource.
        version: 0,
        nonce: nextNonce(),
        baseUrl,
        body: JSON.stringify({
          id: typeof shownId === 'string' ? String(id) : id,
          is_sample: true,
          ...properties,
          ...dates,
          ...named,
          _embedded,
        }),
        traceContext: null,
        timeZone,
        dateCreated: now,
      };
    },
    /** Writes the event. Throws a 404 if the store does not exist. */
    keep,
    /**
     * Writes the event and a delivery for the webhook's pull client. Returns the id of the delivery; undefined if the webhook
     * does not exist.
     */
    insertForPull: async (tx: Queryable, event: SampleEvent, webhookId: number): Promise<number | undefined> => {
      await keep(tx, event);
      return insertPullSample(tx, { shard: shardOf(event.storeId), webhookId, event, day: dayOf(event.dateCreated) });
    },
  };
}

// Sample events in a sandbox store: POST {base_url}/stores/<id>/sample_events. They are published like those of a platform, so that an
// app gets the deliveries of real customers and orders.

/** How often a scenario may be repeated in one request. */
const COUNT_MAX = 10;
/** Ids are below 2^47: two scenarios get the same one once in 10^14 pairs, and every language reads them exactly. */
const ID_MAX = 2 ** 47;

/** The throttle of the accounts module, as far as sample events need it. */
type SampleThrottle = {
  take: (
    buckets: readonly { limit: 'sample events of store'; subject: string }[],
    now: Date,
  ) => Promise<{ allowed: true } | { allowed: false; retryAfterSeconds: number }>;
};

type Deps = Pick<Runtime, 'sql' | 'config' | 'derive'> & { publish: Publisher; throttle: SampleThrottle };

const input = closedObject({
  scenario: Type.Optional(
    Type.Unsafe<Scenario>({
      enum: scenarios,
      default: 'checkout',
      description:
        'checkout: a new customer buys something. refund: the same, and the order is refunded. subscription: a new customer subscribes, is billed once and cancels.',
    }),
  ),
  count: Type.Optional(
    Type.Integer({ minimum: 1, maximum: COUNT_MAX, default: 1, description: 'How many customers do so.' }),
  ),
});

const NOT_A_SANDBOX = 'Sample events can only be made in a sandbox store: create yours on the page of your apps';

function tooMany(retryAfterSeconds: number): Problem {
  const message = `Too many sample events were requested in this store: wait ${retryAfterSeconds} s`;
  return temporary(429, { code: 'too_many_requests', message }, retryAfterSeconds);
}

/** Throws a 404 if the store does not exist, and a 409 if it is not a sandbox. */
async function requireSandbox(sql: Sql, storeId: number): Promise<void> {
  const found = await isSandbox(sql.reads, storeId);
  if (found === undefined) throw notFound('store');
  if (!found) throw new Problem(409, { code: 'not_a_sandbox', message: NOT_A_SANDBOX });
}

const newIds = () => ({
  customer: randomInt(1, ID_MAX),
  order: randomInt(1, ID_MAX),
  subscription: randomInt(1, ID_MAX),
  log: randomInt(1, ID_MAX),
});

/** Returns the key of the request; throws a 400 for an invalid one. */
function keysOf(header: string | undefined, body: Static<typeof input>, events: number, fingerprintKeys: Keys) {
  if (header === undefined) return [];
  const faults: Fault[] = [];
  validateKeys([], { header, isArray: true }, faults);
  if (faults.length > 0) throw invalid(...faults);
  const request = JSON.stringify(['sample_events', body.scenario ?? null, body.count ?? null]);
  return [keyOfRequest(header, request, { events, fingerprintKeys })];
}

export function createSampleEvents({ sql, publish, throttle, config, derive }: Deps): Operation {
  const { baseUrl, events: limits } = config;
  const fingerprintKeys = derive('publish fingerprint');
  return accepting({
    title: 'Make sample events',
    summary: `Publishes the events of up to ${COUNT_MAX} customers in a sandbox store, at most once per Idempotency-Key`,
    input,
    takesKey: true,
    handle: async (request) => {
      const { storeId } = storeOfAddress(request);
      await requireSandbox(sql, storeId);
      const { body, now } = request;
      const { scenario = 'checkout', count = 1 } = body;
      const made = Array.from({ length: count }, () => scenarioEvents(scenario, newIds(), now)).flat();
      const { events } = readPublish(made, { limits, header: undefined, fingerprintKeys, timeZone: 'UTC', now });
      const keys = keysOf(request.key, body, events.length, fingerprintKeys);
      const taken = await throttle.take([{ limit: 'sample events of store', subject: String(storeId) }], now);
      if (!taken.allowed) throw tooMany(taken.retryAfterSeconds);
      const published = await publish({ storeId, events, keys, isArray: true, now });
      const documents = published.map((event) => eventDocument(event, storeId, baseUrl));
      const document = publishedDocument(documents, storeId, baseUrl);
      return { status: 200, document, next: addressOfEvents(baseUrl, storeId), done: 'created' };
    },
  });
}
