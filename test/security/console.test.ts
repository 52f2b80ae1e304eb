/** The pages of operators: who sees them, and that nothing but the command line gives the role. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { urlOf } from '../setup/database.ts';
import { runCommand } from '../setup/command.ts';
import { respond } from '../setup/send.ts';
import { startWithPeople } from './api-callers.ts';
import { createBrowser, ISSUER, type Page } from './oauth-server.ts';
import { enrol, makeOperator, openConsole } from './operators.ts';
import { fillIn, operationTable, routeTable } from './route-table.ts';

const server = await startWithPeople({ SIGN_UP: 'off' });
const { sql, alpha, ada, adaId, bobId, client, call, store, account, platformToken } = server;
const owner = server.browser;
const operator = createBrowser(server.origin);
await operator.signIn(server.bob);
await makeOperator(server, bobId);
/** Signed in before the factor was set up. */
const earlier = createBrowser(server.origin);
await earlier.signIn(server.bob);
const withoutFactor = await operator.open('/operator');
const factor = await enrol(server, operator);
const params = { store_id: String(alpha), client_id: client.client_id, user_id: String(adaId) };
const routes = routeTable(ISSUER)
  .filter(({ path }) => path.startsWith('/operator'))
  .flatMap(({ path, ...route }) =>
    Object.keys('operations' in route ? route.operations : {}).map((method) => ({ method, path })),
  );

const signInAt = (path: string) => `/sign-in?${new URLSearchParams({ return_to: path }).toString()}`;
const ask = (browser: typeof owner, method: string, path: string): Promise<Page> =>
  method === 'GET' ? browser.open(path) : browser.post(path, { nonce: 'x' });

test('there are addresses to examine', () => assert.ok(routes.length >= 5));

for (const { method, path: template } of routes) {
  const path = fillIn({ path: template }, params);
  test(`only an operator who proved a second factor gets ${method} ${template}`, async () => {
    const stranger = await ask(createBrowser(server.origin), method, path);
    assert.deepEqual([stranger.status, stranger.location], [303, signInAt(method === 'GET' ? path : '/account')]);
    assert.equal((await ask(owner, method, path)).status, 404, 'an owner without the role');
    const unproved = await ask(earlier, method, path);
    assert.deepEqual([unproved.status, unproved.location?.split('?')[0]], [303, '/account/confirm']);
    for (const token of [store, account, platformToken]) {
      const headers = { Authorization: `Bearer ${token}`, Accept: 'text/html' };
      const { status } = await respond(server.origin + path, { method, headers });
      assert.ok(status === 303 || status === 403, `a token: ${status}`);
    }
    const allowed = method === 'GET' ? await openConsole(operator, factor, path) : await ask(operator, method, path);
    assert.equal(allowed.status, method === 'GET' ? 200 : 403, 'the operator; a form without a nonce is refused');
  });
}

test('an operator without a second factor is sent to set one up', () => {
  assert.deepEqual([withoutFactor.status, withoutFactor.location], [303, '/account/security?required_by=role']);
});

const operators = async (): Promise<number[]> =>
  (await sql<{ id: number }[]>`select id from users where is_operator order by id`).map(({ id }) => id);

const ROLES = { is_operator: '1', operator: '1', role: 'operator' };

for (const { path, method } of operationTable(ISSUER).filter(({ operation }) => operation.input !== undefined)) {
  test(`no body of ${method} ${path} gives the role`, async () => {
    const filled = path.replaceAll(/:(\w+)/g, (_, name: string) => params[name as keyof typeof params] ?? '1');
    for (const token of [platformToken, account]) await call(method, filled, { token, body: { email: ada, ...ROLES } });
    assert.deepEqual(await operators(), [bobId]);
  });
}

const forms = routeTable(ISSUER).filter(({ operations }) => operations.POST !== undefined);

for (const { path } of forms) {
  test(`no form at ${path} gives the role`, async () => {
    const filled = path.replaceAll(/:(\w+)/g, (_, name: string) => params[name as keyof typeof params] ?? '1');
    const page = await owner.open(filled);
    const nonce = /name="nonce" value="([^"]*)"/.exec(page.text)?.[1] ?? '';
    if (!/sign-out|erase|end-others|password|revoke/.test(path)) await owner.post(filled, { nonce, ...ROLES });
    assert.deepEqual(await operators(), [bobId]);
  });
}

test('a search with an invisible character is refused', async () => {
  for (const list of ['stores', 'apps', 'people', 'audit'])
    assert.equal((await operator.open(`/operator/${list}?q=a%00b`)).status, 400, list);
});

test('the command gives the role to a person with a verified address, and takes it at once', async () => {
  const env = { DATABASE_URL: urlOf(server.address), HALCYON_SECRET_KEY: '07'.repeat(32), LOG_LEVEL: 'silent' };
  const run = (...args: string[]) => runCommand(['user', 'operator', ...args, '--json'], env);
  await sql`update users set is_email_verified = false where id = ${adaId}`;
  assert.equal((await run(ada)).code, 1);
  await sql`update users set is_email_verified = true where id = ${adaId}`;
  const given = await run(ada);
  assert.deepEqual([given.code, JSON.parse(given.out)], [0, { id: adaId, email: ada, operator: true }], given.err);
  assert.deepEqual(await operators(), [adaId, bobId]);
  assert.equal((await openConsole(operator, factor)).status, 200);
  for (const email of [ada, server.bob]) assert.equal((await run(email, '--remove')).code, 0);
  assert.deepEqual(await operators(), []);
  assert.equal((await operator.open('/operator')).status, 404);
  const entries = await sql<{ action: string }[]>`select action from audit where action like 'operator_%' order by id`;
  assert.deepEqual(
    entries.map(({ action }) => action),
    ['operator_added', 'operator_removed', 'operator_removed'],
  );
});
