/** A program of the platform makes a link to the pages of a store by following links, in each format. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { responseChecker, type ApiDescription } from '../setup/described-responses.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { ISSUER } from '../security/oauth-server.ts';
import { itemsOf } from '../setup/caller.ts';
import { send } from '../setup/send.ts';

const { origin, call, alpha, adaId, platformToken: token, store } = await startWithPeople();

test('the link of a store leads to the request, whose response is as described', async () => {
  const home = await call('GET', '/', { token });
  const stores = await call('GET', home.body._links['svc:stores']?.href ?? '', { token });
  const own = itemsOf(stores, 'stores').find(({ id }) => id === alpha);
  const href = own?._links['svc:links']?.href ?? '';
  const made = await call('POST', href, { token, body: { user: adaId } });
  assert.equal(made.status, 201);
  assert.equal(made.body['user_id'], adaId);
  assert.equal(made.body._links['svc:member']?.href, `${ISSUER}/stores/${alpha}/members/${adaId}`);
  const { text } = await send(`${origin}/openapi.json`);
  const check = responseChecker(JSON.parse(text) as ApiDescription);
  const contentType = made.headers.get('content-type') ?? '';
  const path = new URL(href).pathname;
  assert.deepEqual(check({ method: 'POST', path, status: 201, contentType, text: JSON.stringify(made.body) }), []);
  assert.equal((await call('GET', href, { token })).status, 405);
});

test('Siren has the action with its field, and no other caller has it', async () => {
  type Action = { name: string; href: string; method: string; fields: { name: string; type: string }[] };
  const actionsOf = async (as: string): Promise<Action[]> => {
    const headers = { Accept: 'application/vnd.siren+json' };
    const { body } = await call('GET', `/stores/${alpha}`, { token: as, headers });
    return (body as unknown as { actions?: Action[] }).actions ?? [];
  };
  const action = (await actionsOf(token)).find(({ name }) => name === 'links');
  assert.deepEqual([action?.method, action?.href], ['POST', `${ISSUER}/stores/${alpha}/links`]);
  assert.deepEqual(
    action?.fields.map(({ name, type }) => [name, type]),
    [['user', 'number']],
  );
  assert.equal(
    (await actionsOf(store)).some(({ name }) => name === 'links'),
    false,
  );
});

test('the link has a description with an example', async () => {
  for (const [rel, shown] of [
    ['links', 'user'],
    ['portal_link', 'date_expires'],
  ] as const) {
    const { status, text } = await send(`${origin}/rels/${rel}`, { headers: { Accept: 'text/html' } });
    assert.deepEqual([status, text.includes(shown)], [200, true], rel);
  }
});
