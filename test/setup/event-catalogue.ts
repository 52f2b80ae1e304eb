/**
 * Publishes generated events of every type to a running server, and validates each delivered body against the schema that the
 * event catalogue of the same server has for its event.
 */
import assert from 'node:assert/strict';
import { Ajv2020 } from 'ajv/dist/2020.js';
import * as fc from 'fast-check';
import {
  allEvents,
  HIDDEN_FROM_APPS,
  publishableEvents,
  relationsOf,
  resourceOfEvent,
  resourceTypes,
} from '#catalog/catalog.ts';
import { embedding, zoomsOf } from './any-resource.ts';
import { startTestApp } from './app.ts';
import { startReceiver, type Got } from './receiver.ts';

type Json = Record<string, unknown>;
type Delivered = { event: string; body: Json };

const date = fc.constantFrom('2026-01-01T00:00:00+0000', '2026-07-01', '2027-01-01T00:00:00+0200', null, 'soon', 7);

/** Properties that lifecycle steps depend on. */
const lifecycle = fc.record(
  {
    frequency: fc.constantFrom('1m', '.5m', '2w', '1y', 'x'),
    is_active: fc.constantFrom(true, false, '1', 0),
    start_date: date,
    next_transaction_date: date,
    end_date: date,
    first_failed_transaction_date: date,
    past_due_amount: fc.constantFrom(0, 12.5, '12.50', null, 'much'),
    total_order: fc.constantFrom(9.9, '9.90', null),
    currency_code: fc.constantFrom('EUR', 'usd', 7),
    error_message: fc.constantFrom(null, 'declined'),
  },
  { requiredKeys: [] },
);

/** Few ids, so that resources have several versions. */
const ids = fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constantFrom('a', 'B-7', 'é'));

const publishOf = (event: string): fc.Arbitrary<{ event: string; resource: Json }> => {
  const own = embedding(relationsOf(resourceOfEvent(event) ?? assert.fail(event)));
  const steps = event.startsWith('subscription/') ? lifecycle : fc.constant({});
  return fc
    .tuple(own, steps, ids)
    .map(([resource, changes, id]) => ({ event, resource: { ...resource, ...changes, id } }));
};

/** Returns generated events that the platform may publish while Halcyon derives subscription events, or while it does not. */
export function publishes(count: number, { derived, seed }: { derived: boolean; seed: number }) {
  const events = publishableEvents().filter((event) => !derived || !event.startsWith('subscription_event/'));
  return fc.sample(fc.oneof(...events.map(publishOf)), { numRuns: count, seed });
}

const PER_REQUEST = 200;

export async function openCatalogue() {
  const app = await startTestApp();
  await app.restart({ PLATFORM_STORE: String(app.storeId) });
  const receiver = await startReceiver();
  const store = `/stores/${app.storeId}`;
  const schemas = new Map<string, Json>();
  for (const event of allEvents()) {
    const answer = await fetch(`${app.baseUrl}/docs/events/${event}`, { headers: { Accept: 'application/json' } });
    schemas.set(event, ((await answer.json()) as { schema: Json }).schema);
  }
  /** Creates two webhooks per type: without a query, and with every relation. */
  const subscribe = async (): Promise<void> => {
    for (const type of resourceTypes()) {
      for (const query of ['', `zoom=${zoomsOf(relationsOf(type)).join(',')}`]) {
        if (query === 'zoom=') continue;
        const body = {
          name: type,
          format: 'json',
          encryption_key: 'k',
          url: receiver.url,
          event_resource: type,
          query,
        };
        // An app is sent its own events only, by the webhook that it declares, and none for the operator.
        const token = HIDDEN_FROM_APPS.includes(type) ? { token: app.platformToken } : {};
        const answer = await app.api('POST', `${store}/webhooks`, { body, ...token });
        assert.equal(answer.status, 201, await answer.text());
      }
    }
  };
  const publish = async (events: readonly unknown[]): Promise<void> => {
    for (let at = 0; at < events.length; at += PER_REQUEST) {
      const body = events.slice(at, at + PER_REQUEST);
      const answer = await app.api('POST', `${store}/events`, { token: app.platformToken, body });
      assert.equal(answer.status, 200, (await answer.text()).slice(0, 2_000));
    }
  };
  /** Resolves with all deliveries, once each has arrived. */
  const delivered = async (): Promise<Delivered[]> => {
    const [row] = await app.sql<{ count: string }[]>`
      select (select count(*) from delivery) + (select count(*) from delivery_done) as count`;
    await receiver.until(Number(row?.count));
    return receiver.got.map(({ headers, body }: Got) => ({
      event: String(headers['service-webhook-event']),
      body: JSON.parse(body.toString()) as Json,
    }));
  };
  return { ...app, store, schemas, subscribe, publish, delivered };
}

/** Keeps what it compiled; the compilation takes most of the time of a check. */
const validators = new WeakMap<ReadonlyMap<string, Json>, Ajv2020>();

/** Optimizing the code of a schema takes longer than it saves in a few checks. */
const newValidator = (): Ajv2020 =>
  new Ajv2020({
    strict: true,
    strictRequired: false,
    strictTypes: false,
    allowUnionTypes: true,
    code: { optimize: false },
  });

/** Returns the faults of the bodies, each with its event. */
export function faultsOf(bodies: readonly Delivered[], schemas: ReadonlyMap<string, Json>): string[] {
  const ajv = validators.getOrInsertComputed(schemas, newValidator);
  return bodies.flatMap(({ event, body }) => {
    const check = ajv.compile(schemas.get(event) ?? assert.fail(event));
    return check(body) ? [] : [`${event}: ${ajv.errorsText(check.errors)}`];
  });
}
