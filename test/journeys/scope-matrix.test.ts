/**
 * Every operation of the API with a token of every limited scope: allowed, or refused with a 403 whose challenge names what
 * suffices. An operation without a row fails the test. `node test/run.ts test/journeys/scope-matrix.test.ts` prints the table.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { userScopes } from '#identity/oauth/scope.ts';
import { startFurnishedApp } from '../setup/app-with-resources.ts';
import { letAppIn } from '../setup/grant-access.ts';
import { respond } from '../setup/send.ts';
import { fillIn, operationTable, type Described } from '../security/route-table.ts';

const limited = userScopes().filter((scope) => !scope.endsWith('_full_access'));

/**
 * `open`: no scope is needed. `hidden`: a 404 for every token of a store. `other`: only another scope or a signed-in owner may.
 * A list: the limited scopes that suffice.
 */
type Row = 'open' | 'any' | 'full' | 'account' | 'hidden' | 'other' | readonly string[];

const READS = ['store_read', 'webhooks'];
const CHANGES = ['webhooks'];
const EVENT = ['store_read', 'webhooks', 'events_read'];
/** The collection of the address is that of transactions. */
const RESOURCE = ['store_read', 'transaction:read'];

// oxfmt-ignore
const MATRIX: Readonly<Record<string, Row>> = {
  'GET /': 'open',
  'GET /docs': 'open',
  'GET /docs/:page': 'open',
  'GET /docs/receiving': 'open',
  'GET /docs/events': 'open',
  'GET /docs/events/:resource_type/:action': 'open',
  'GET /rels': 'open',
  'GET /rels/:rel': 'open',
  'GET /users': 'other',
  'POST /users': 'other',
  'GET /users/:user_id': 'any',
  'PATCH /users/:user_id': 'other',
  'PUT /users/:user_id': 'other',
  'DELETE /users/:user_id': 'other',
  'POST /users/:user_id/sandbox_store': 'other',
  'GET /users/:user_id/invitations': 'hidden',
  'GET /users/:user_id/invitations/:invitation_id': 'hidden',
  'DELETE /users/:user_id/invitations/:invitation_id': 'hidden',
  'POST /users/:user_id/invitations/:invitation_id/accept': 'hidden',
  'GET /stores': 'any',
  'POST /stores': 'other',
  'GET /stores/:store_id': 'any',
  'PATCH /stores/:store_id': 'full',
  'DELETE /stores/:store_id': 'other',
  'GET /stores/:store_id/members': ['store_read'],
  'POST /stores/:store_id/members': 'other',
  'DELETE /stores/:store_id/members/by_identity': 'other',
  'GET /stores/:store_id/awaited_members': 'other',
  'GET /stores/:store_id/members/:user_id': ['store_read'],
  'PATCH /stores/:store_id/members/:user_id': 'other',
  'DELETE /stores/:store_id/members/:user_id': 'other',
  'GET /stores/:store_id/invitations': 'other',
  'POST /stores/:store_id/invitations': 'other',
  'GET /stores/:store_id/invitations/:invitation_id': 'other',
  'DELETE /stores/:store_id/invitations/:invitation_id': 'other',
  'GET /stores/:store_id/webhooks': READS,
  'POST /stores/:store_id/webhooks': CHANGES,
  'GET /webhooks/:webhook_id': READS,
  'PATCH /webhooks/:webhook_id': CHANGES,
  'PUT /webhooks/:webhook_id': CHANGES,
  'DELETE /webhooks/:webhook_id': CHANGES,
  'POST /webhooks/:webhook_id/rotate_key': CHANGES,
  'POST /webhooks/:webhook_id/test': CHANGES,
  'POST /webhooks/:webhook_id/retry_pending': CHANGES,
  'GET /webhooks/:webhook_id/health': READS,
  'GET /webhooks/:webhook_id/stream': CHANGES,
  'GET /webhooks/:webhook_id/statuses': READS,
  'GET /webhooks/:webhook_id/statuses/:delivery_id': READS,
  'POST /webhooks/:webhook_id/statuses/:delivery_id/resend': CHANGES,
  'POST /webhooks/:webhook_id/statuses/:delivery_id/retry': CHANGES,
  'POST /webhooks/:webhook_id/statuses/:delivery_id/answer': CHANGES,
  'GET /webhooks/:webhook_id/logs': READS,
  'POST /webhooks/:webhook_id/recover': CHANGES,
  'GET /webhooks/:webhook_id/recoveries': READS,
  'GET /webhooks/:webhook_id/recoveries/:recovery_id': READS,
  'POST /webhooks/:webhook_id/recoveries/:recovery_id/cancel': CHANGES,
  'GET /stores/:store_id/overview': READS,
  'GET /stores/:store_id/events': ['store_read', 'events_read'],
  'POST /stores/:store_id/events': 'other',
  'POST /stores/:store_id/links': 'other',
  'POST /stores/:store_id/load': 'other',
  'POST /stores/:store_id/sample_events': 'full',
  'GET /stores/:store_id/events/:event_id': EVENT,
  'GET /stores/:store_id/events/:event_id/payload': EVENT,
  'GET /stores/:store_id/events/:event_id/statuses': READS,
  'GET /stores/:store_id/statuses': READS,
  'GET /stores/:store_id/:collection': RESOURCE,
  'GET /stores/:store_id/:collection/:id': RESOURCE,
  'DELETE /stores/:store_id/:collection/:id': 'other',
  'POST /stores/:store_id/:collection/:id/send_webhooks': CHANGES,
  'GET /stores/:store_id/:collection/:id/:relation': RESOURCE,
  'GET /users/:user_id/clients': 'account',
  'GET /users/:user_id/grants': 'any',
  'GET /stores/:store_id/grants': ['store_read'],
  'GET /stores/:store_id/members/:user_id/grants/:grant_id': ['store_read'],
  'DELETE /stores/:store_id/members/:user_id/grants/:grant_id': 'other',
  'GET /grants/:grant_id': 'any',
  'DELETE /grants/:grant_id': 'any',
  'GET /clients': 'other',
  'POST /clients': 'other',
  'GET /clients/:client_id': 'account',
  'GET /clients/:client_id/installs': 'account',
  'PATCH /clients/:client_id': 'hidden',
  'PUT /clients/:client_id': 'hidden',
  'DELETE /clients/:client_id': 'hidden',
};

const app = await startFurnishedApp({ env: { API_RATE_PER_SECOND: '0' } });
const { sql, baseUrl, storeId, userId, clock } = app;
const operations = operationTable(baseUrl);
const [client] = await sql<{ clientId: string }[]>`select client_id as "clientId" from client where name = 'App'`;
const clientId = client?.clientId ?? '';
const keyOf = ({ method, path }: Described): string => `${method} ${path}`;

/** Returns a token of the app of every test app that has only this scope. */
async function tokenFor(scope: string): Promise<string> {
  const { access_token: token } = await letAppIn(app, { clientId, userId, storeId, now: clock.now() });
  await sql`
    update access_token set permissions = array[${scope}]
    where grant_id = (select max(id) from access_grant) and permissions is null`;
  return token;
}

const suffices = (row: Row, scope: string): boolean =>
  row === 'open' || row === 'any' || row === 'hidden' || (Array.isArray(row) && row.includes(scope));

/** Sends a request that changes nothing if it is allowed: a HEAD, or a version or body that is refused after the access check. */
function ask({ method, operation, ...route }: Described, token: string): Promise<Response> {
  const isRead = method === 'GET';
  return respond(baseUrl + fillIn(route, app.named), {
    method: isRead ? 'HEAD' : method,
    headers: {
      'SERVICE-API-VERSION': '1',
      Authorization: `Bearer ${token}`,
      ...(operation.isStream && { Accept: 'text/event-stream' }),
      ...(!isRead && { 'If-Match': '"0"', 'Content-Type': 'application/json' }),
    },
    ...(!isRead && { body: '[[]]' }),
  });
}

test('every operation has a row, and every row an operation', () => {
  assert.deepEqual(operations.map(keyOf).toSorted(), Object.keys(MATRIX).toSorted());
});

test('a limited scope permits exactly the operations of the table', async (t) => {
  const tokens = new Map<string, string>();
  for (const scope of limited) tokens.set(scope, await tokenFor(scope));
  t.diagnostic(['operation'.padEnd(64), ...limited].join(' | '));
  for (const described of operations) {
    const key = keyOf(described);
    const row = MATRIX[key] ?? 'other';
    const cells: string[] = [];
    for (const [scope, token] of tokens) {
      const response = await ask(described, token);
      await response.text();
      const challenge = response.headers.get('www-authenticate') ?? '';
      const isAllowed = response.status !== 403;
      cells.push((isAllowed && row !== 'hidden' ? 'yes' : String(response.status)).padEnd(scope.length));
      assert.equal(isAllowed, suffices(row, scope), `${key} with ${scope}: ${response.status} ${challenge}`);
      if (isAllowed) assert.ok(row === 'hidden' ? response.status === 404 : response.status !== 401, key);
      else assert.match(challenge, /^Bearer realm="halcyon", error="insufficient_scope", scope="[\w: ]+"$/);
      if (isAllowed || row === 'other') continue;
      const named = /scope="([^"]*)"/.exec(challenge)?.[1]?.split(' ');
      const sufficient = Array.isArray(row) ? row : [];
      const full = row === 'account' ? 'user_full_access' : 'store_full_access';
      assert.deepEqual(new Set(named), new Set([...sufficient, full]), `the challenge of ${key}`);
    }
    t.diagnostic([key.padEnd(64), ...cells].join(' | '));
  }
});

test('a scope of one resource type does not read another', async () => {
  const read = (token: string, collection: string) =>
    app.api('GET', `/stores/${storeId}/${collection}`, { token }).then(({ status }) => status);
  const token = await tokenFor('customer:read');
  assert.equal(await read(token, 'customers'), 200);
  for (const other of ['transactions', 'subscriptions', 'changelogs', 'orders'])
    assert.equal(await read(token, other), 403);
  const changelogs = await tokenFor('changelog:read');
  assert.deepEqual([await read(changelogs, 'changelogs'), await read(changelogs, 'customers')], [200, 403]);
});

test('documents show only the actions that the scope permits', async () => {
  const actionsWith = async (scope: string): Promise<string[]> => {
    const response = await fetch(`${baseUrl}/stores/${storeId}/webhooks`, {
      headers: {
        'SERVICE-API-VERSION': '1',
        Accept: 'application/vnd.siren+json',
        Authorization: `Bearer ${await tokenFor(scope)}`,
      },
    });
    const { actions = [] } = (await response.json()) as { actions?: { name: string }[] };
    return actions.map(({ name }) => name);
  };
  assert.deepEqual(await actionsWith('webhooks'), ['create']);
  assert.deepEqual(await actionsWith('store_read'), []);
});

test('OpenAPI names the scopes of every operation', async () => {
  const response = await fetch(`${baseUrl}/openapi.json`);
  const { paths } = (await response.json()) as {
    paths: Record<string, Record<string, { security?: Record<string, string[]>[] }>>;
  };
  for (const described of operations) {
    const row = MATRIX[keyOf(described)] ?? 'other';
    if (!Array.isArray(row)) continue;
    const path = described.path.replaceAll(/:(\w+)/g, '{$1}');
    const security = paths[path]?.[described.method.toLowerCase()]?.security ?? [];
    const scopes = new Set(security.flatMap(({ oauth2 = [] }) => oauth2));
    for (const scope of [...row, 'store_full_access'])
      assert.ok(scopes.has(scope), `${keyOf(described)} misses ${scope}`);
  }
});
