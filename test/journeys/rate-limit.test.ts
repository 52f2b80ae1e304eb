import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startAuthorizationServer } from '../security/oauth-server.ts';

const server = await startAuthorizationServer({ API_RATE_PER_SECOND: '1' });
const issue = async (): Promise<string> => String((await server.redeem(await server.newCode())).body['access_token']);

test('every answer has the remaining quota, and an exhausted one is a 429 with the time to retry', async () => {
  const token = await issue();
  const answers = [await server.read(server.alpha, token), await server.read(server.alpha, token)];
  assert.deepEqual(
    answers.map(({ status, headers }) => [status, headers.get('ratelimit-policy')]),
    [
      [200, '"default";q=2;w=2'],
      [200, '"default";q=2;w=2'],
    ],
  );
  assert.match(answers[1]?.headers.get('ratelimit') ?? '', /^"default";r=0;t=[12]$/);
  const refused = await server.read(server.alpha, token);
  assert.equal(refused.status, 429);
  assert.equal(refused.headers.get('retry-after'), '1');
  assert.match(refused.headers.get('ratelimit') ?? '', /^"default";r=0;t=[12]$/);
  assert.match(await refused.text(), /"code":"too_many_requests"/);
});

test('the limit of one grant affects neither another grant nor the platform', async () => {
  const other = await issue();
  assert.equal((await server.read(server.alpha, other)).status, 200);
  const { body } = await server.token({ grant_type: 'client_credentials', scope: 'platform', ...server.platform });
  for (let n = 0; n < 5; n += 1) {
    const answer = await server.read(server.alpha, String(body['access_token']));
    assert.deepEqual([answer.status, answer.headers.get('ratelimit')], [200, null]);
  }
});
