/** The owner of a pull webhook: the command lines of all people are one client, and each person's webhooks are their own. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createUser } from '#identity/accounts/users.ts';
import { COMMAND_LINE_CLIENT, provideCommandLineClient } from '#identity/oauth/clients/clients.ts';
import { addMember } from '#stores/store.ts';
import { startTestApp } from '../setup/app.ts';
import { letAppIn } from '../setup/grant-access.ts';
import { listen } from '../setup/pull-listener.ts';
import type { Representation } from '../setup/webhook-api.ts';
import { passwords } from '../setup/passwords.ts';

const KEY = 'whsec_VGhlIHF1aWNrIGJyb3duIGZveA==';
const app = await startTestApp();
const { sql, storeId, userId } = app;
const now = app.clock.now();

await provideCommandLineClient(sql, now);
const tokenOf = async (person: number): Promise<string> =>
  (await letAppIn(app, { clientId: COMMAND_LINE_CLIENT, userId: person, storeId, now })).access_token;
const { id: colleague } = await createUser(sql, passwords, {
  email: 'colleague@example.com',
  password: 'a long password',
  now,
});
await addMember(sql, { storeId, userId: colleague, role: 'member', now });
const [own, theirs] = [await tokenOf(userId), await tokenOf(colleague)];

async function call(method: string, path: string, token: string, body?: object) {
  const response = await app.api(method, path, { token, ...(body && { body }) });
  return { status: response.status, body: JSON.parse((await response.text()) || '{}') as Representation };
}
async function make(changes: object): Promise<string> {
  const plain = { name: 'Laptop', format: 'json', encryption_key: KEY, event_resource: 'transaction' };
  const made = await call('POST', `/stores/${storeId}/webhooks`, own, { ...plain, ...changes });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return `/webhooks/${String(made.body['id'])}`;
}

test('a pull webhook of one person is neither fetched nor answered by another with the same app', async (t) => {
  const path = await make({ is_held: '1' });
  const listener = await listen(app, path, { token: own });
  t.after(listener.hangUp);
  await call('POST', `${path}/test`, own, { event: 'transaction/created' });
  const [message] = await listener.deliveries(1);
  const stranger = await listen(app, path, { token: theirs });
  assert.equal(stranger.response.status, 404);
  const answer = { response_code: 200, duration: 1 };
  const at = String(message?.data['answer']);
  assert.equal((await call('POST', at, theirs, answer)).status, 404);
  assert.equal(listener.events.filter(({ event }) => event === 'goodbye').length, 0);
  assert.equal((await call('POST', at, own, answer)).status, 200);
  const later = await listen(app, path, { token: await tokenOf(userId) });
  t.after(later.hangUp);
  assert.equal(later.response.status, 200, 'a new login of the same person continues');
  assert.equal(await listener.ended, 'replaced');
});

test('a role that may not listen sees neither the key nor a link to the stream, and cannot rotate the key', async () => {
  const path = await make({ is_held: '1' });
  const [mine, foreign] = [await call('GET', path, own), await call('GET', path, theirs)];
  const shown = ({ body }: typeof mine) => [body['encryption_key'], 'svc:listen' in body._links];
  assert.deepEqual(
    [shown(mine), shown(foreign)],
    [
      [KEY, true],
      [null, false],
    ],
  );
  assert.equal((await call('POST', `${path}/rotate_key`, theirs, {})).status, 403);
});

test('the key of a webhook with a url belongs to the app, for whichever person it acts', async () => {
  const path = await make({ url: 'https://example.com/hook' });
  const { body } = await call('GET', path, theirs);
  assert.deepEqual([body['encryption_key'], 'svc:listen' in body._links], [KEY, false]);
});

after(() => app.stop());
