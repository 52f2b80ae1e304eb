/** "Webhook": its fields, types, constraints and defaults. */
import assert from 'node:assert/strict';
import { faultsIn, MINIMAL, selfOf, type Row, type World } from '../row.ts';

const DATE = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}$/;

/** `value` is returned as it was sent. */
async function keeps({ create }: World, name: string, value: unknown, beside: Record<string, unknown> = {}) {
  const { status, body } = await create({ ...beside, [name]: value });
  assert.equal(status, 201, JSON.stringify(body));
  assert.deepEqual(body[name], value);
}

/** `value` is refused, and the error names the field. */
async function refuses({ create }: World, name: string, value: unknown) {
  const reply = await create({ [name]: value });
  assert.equal(reply.status, 400);
  assert.ok(
    faultsIn(reply).some((fault) => fault.startsWith(`${name} `)),
    faultsIn(reply).join(),
  );
}

const longest = (name: string, length: number, make: (size: number) => string): Row => ({
  row: `${name}: at most ${length} characters`,
  holds: async (world) => {
    await keeps(world, name, make(length));
    await refuses(world, name, make(length + 1));
  },
});

const RESOURCES = [
  'transaction',
  'subscription',
  'customer',
  'transaction_log',
  'changelog',
  'subscription_event',
  'subscription_mrr_snapshot',
];

const formats: Row[] = ['json', 'partner_automation', 'partner_sitebuilder'].map((format) => ({
  row: `format: one of json, partner_automation, partner_sitebuilder: ${format}`,
  holds: (world) => keeps(world, 'format', format),
}));

const resources: Row[] = RESOURCES.map((resource) => ({
  row: `event_resource: one of …: ${resource}`,
  holds: (world) => keeps(world, 'event_resource', resource),
}));

const readOnly: Row[] = ['date_created', 'date_modified'].map((name) => ({
  row: `${name}: date, read only, <date>T<time><+/-hhmm>`,
  holds: async ({ create }) => {
    const { body } = await create({ [name]: '1999-01-01T00:00:00+0000' });
    assert.match(String(body[name]), DATE);
    assert.doesNotMatch(String(body[name]), /^1999/);
  },
}));

export const webhookFields: Row[] = [
  {
    row: 'name: string, required',
    holds: async ({ api, collection }) => {
      const { name: _, ...nameless } = MINIMAL;
      assert.deepEqual(faultsIn(await api('POST', collection, { body: nameless })), ['name required']);
    },
  },
  { row: 'name: string', holds: (world) => refuses(world, 'name', 5) },
  longest('name', 255, (size) => '😀'.repeat(size)),
  {
    row: 'format: string, required',
    holds: async ({ api, collection }) => {
      const { format: _, ...formless } = MINIMAL;
      assert.deepEqual(faultsIn(await api('POST', collection, { body: formless })), ['format required']);
    },
  },
  ...formats,
  { row: 'format: one of: no other', holds: (world) => refuses(world, 'format', 'xml') },
  {
    row: 'version: string, not required, default 2',
    holds: async ({ create }) => assert.equal((await create()).body['version'], '2'),
  },
  {
    row: 'version: must not be changed unless specifically instructed',
    holds: (world) => refuses(world, 'version', '1'),
  },
  {
    row: 'url: string, not required',
    holds: async ({ create }) => assert.equal((await create()).body['url'], null),
  },
  longest('url', 1_000, (size) => `https://example.com/${'x'.repeat(size - 'https://example.com/'.length)}`),
  {
    row: 'query: string, not required',
    holds: async ({ create }) => assert.equal((await create()).body['query'], null),
  },
  longest('query', 1_000, (size) => `fields=${'x'.repeat(size - 'fields='.length)}`),
  {
    row: 'query: of the form zoom=<relation>,<relation>:<relation>,…',
    holds: (world) => keeps(world, 'query', 'zoom=customer,items:item_options', { event_resource: 'transaction' }),
  },
  {
    row: 'encryption_key: string, required when format is json',
    holds: async ({ api, collection }) => {
      const { encryption_key: _, ...keyless } = MINIMAL;
      assert.deepEqual(faultsIn(await api('POST', collection, { body: keyless })), ['encryption_key required']);
      const other = { ...keyless, format: 'partner_automation' };
      assert.equal((await api('POST', collection, { body: other })).status, 201);
    },
  },
  longest('encryption_key', 1_000, (size) => 'k'.repeat(size)),
  {
    row: 'event_resource: string, not required',
    holds: async ({ create }) => assert.equal((await create()).body['event_resource'], null),
  },
  ...resources,
  { row: 'event_resource: one of: no other', holds: (world) => refuses(world, 'event_resource', 'order') },
  {
    row: "is_active: boolean, not required, written as '1' or '0'",
    holds: async (world) => {
      assert.equal((await world.create()).body['is_active'], '1');
      await keeps(world, 'is_active', '0');
    },
  },
  ...readOnly,
  {
    row: 'events: an array of strings of the form <resource>/<action>',
    holds: async ({ create }) => {
      const events = ['transaction/created', 'transaction/captured'];
      assert.deepEqual((await create({ event_resource: 'transaction', events })).body['events'], events);
    },
  },
  {
    row: 'The webhook has no linked resources that can be zoomed',
    holds: async ({ api, create }) => {
      assert.equal((await api('GET', `${selfOf(await create())}?zoom=store`)).status, 400);
    },
  },
];
