/** Clients that register themselves where the metadata announce it, and then complete the flow like any other. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRegistrationToken } from '#identity/oauth/registration/registration.ts';
import { walk as oauth4webapi } from './node/oauth4webapi.ts';
import { walk as openidClient } from './node/openid-client.ts';
import { withOauth4webapi, withOpenidClient, type Register } from './node/registration.ts';
import { assertWalked, kinds, openScene, type Walk } from './oauth-flow.ts';

const scene = await openScene({ OPEN_REGISTRATION: '1' });
const { sql } = scene.server;
const initialAccessToken = await createRegistrationToken(sql, { days: 1, now: new Date() });

const libraries: readonly (readonly [library: string, register: Register, walk: Walk])[] = [
  ['openid-client', withOpenidClient, openidClient],
  ['oauth4webapi', withOauth4webapi, oauth4webapi],
];

for (const [library, register, walk] of libraries) {
  for (const method of ['basic', 'post', 'none'] as const) {
    test(`${library} registers and completes the flow ${kinds[method]}`, async () => {
      const known = method === 'none' ? await scene.onComputer() : await scene.confidential(method);
      const registered = await register({ app: known, initialAccessToken, name: `By ${library}` });
      assert.notEqual(registered.clientId, known.clientId);
      assert.equal(registered.clientSecret === '', method === 'none');
      assertWalked(await walk({ ...known, ...registered }), method);
    });
  }

  test(`${library} is rejected with an unknown registration token`, async () => {
    const app = await scene.confidential('basic');
    const wrong = initialAccessToken.slice(0, -4) + 'AAAA';
    const name = `Rejected ${library}`;
    await assert.rejects(register({ app, initialAccessToken: wrong, name }), { status: 401 });
    const [{ count } = { count: NaN }] = await sql<{ count: number }[]>`
      select count(*) from client where name = ${name}`;
    assert.equal(count, 0);
  });
}
