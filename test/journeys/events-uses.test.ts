/** `halcyon events uses` names the webhooks that a change of the types of events concerns. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runCommand } from '../setup/command.ts';
import { urlOf } from '../setup/database.ts';
import { startAuthorizationServer } from '../security/oauth-server.ts';
import { send } from '../setup/send.ts';

const server = await startAuthorizationServer();
const { origin, alpha } = server;
const { body: granted } = await server.redeem(await server.newCode());

async function makeWebhook(name: string, settings: Record<string, unknown>): Promise<number> {
  const { status, text } = await send(`${origin}/stores/${alpha}/webhooks`, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'SERVICE-API-VERSION': '1',
      Authorization: `Bearer ${String(granted['access_token'])}`,
    },
    body: JSON.stringify({
      name,
      format: 'json',
      url: 'https://r.example/',
      encryption_key: 'k'.repeat(32),
      ...settings,
    }),
  });
  assert.equal(status, 201, text);
  return (JSON.parse(text) as { id: number }).id;
}
const transactions = { event_resource: 'transaction', events: ['transaction/created'] };
const zoomed = await makeWebhook('Zoomed', { ...transactions, query: 'zoom=items:item_options&fields=id,total_order' });
const filtered = await makeWebhook('Filtered', {
  ...transactions,
  events: ['transaction/modified'],
  filter: '/_embedded/svc:items/0/code=tea-*&total_order:greaterthan=10',
  is_active: '0',
});
await makeWebhook('Customers', { event_resource: 'customer', events: ['customer/created'], filter: 'name=items' });

const env = { DATABASE_URL: urlOf(server.address), HALCYON_SECRET_KEY: '07'.repeat(32), LOG_LEVEL: 'silent' };
const uses = (...args: string[]) => runCommand(['events', 'uses', ...args], env);

async function found(target: string): Promise<Record<string, string[]>> {
  const { code, out, err } = await uses(target, '--json');
  assert.equal(code, 0, err);
  const { webhooks } = JSON.parse(out) as { webhooks: { name: string; in: string[] }[] };
  return Object.fromEntries(webhooks.map(({ name, in: places }) => [name, places]));
}

test('it names who reads a type, an event, a member or a relation, and where', async () => {
  const cases: [target: string, expected: Record<string, string[]>][] = [
    ['transaction', { Zoomed: ['events', 'query'], Filtered: ['events', 'filter'] }],
    ['transaction/created', { Zoomed: ['events'] }],
    ['transaction/modified', { Filtered: ['events'] }],
    ['transaction/items', { Zoomed: ['query'], Filtered: ['filter'] }],
    ['transaction/item_options', { Zoomed: ['query'] }],
    ['transaction/total_order', { Zoomed: ['query'], Filtered: ['filter'] }],
    ['transaction/code', { Filtered: ['filter'] }],
    ['transaction/tea-*', {}],
    ['customer/items', {}],
    ['customer/name', { Customers: ['filter'] }],
    ['subscription', {}],
  ];
  for (const [target, expected] of cases) assert.deepEqual(await found(target), expected, target);
});

test('it prints a line for each, and how many there are', async () => {
  const { out } = await uses('transaction/items');
  assert.deepEqual(out.trim().split('\n'), [
    `webhook ${zoomed} of store ${alpha}: query  Zoomed`,
    `webhook ${filtered} of store ${alpha}: filter  Filtered (disabled)`,
    '2 webhooks use transaction/items',
  ]);
});

test('a type that does not exist is an error that lists the types', async () => {
  for (const [target, message] of [
    ['order', /no type order; types: .*transaction/],
    ['transaction/', /must be <type> or <type>\/<name>/],
    ['transaction/a/b', /must be <type> or <type>\/<name>/],
  ] as const) {
    const { code, err } = await uses(target);
    assert.equal(code, 2);
    assert.match(err, message);
  }
});
