/** The bearer check: its exact answers, and that it reads the database at each request. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hashToken } from '#identity/oauth/oauth-tokens.ts';
import { addMember } from '#stores/store.ts';
import { ISSUER, startAuthorizationServer } from './oauth-server.ts';
import { fillIn, operationTable } from './route-table.ts';

const server = await startAuthorizationServer();
const { newCode, redeem, read, wait, alpha, foreign, sql, statements } = server;

// Another person's membership must never count for Ada's grants.
for (const storeId of [alpha, foreign]) {
  await addMember(sql, { storeId, userId: server.bobId, role: 'owner', now: new Date() });
}

const accessToken = async (): Promise<string> => String((await redeem(await newCode())).body['access_token']);

async function assertRefused(response: Response, message: string): Promise<void> {
  assert.equal(response.status, 401);
  assert.equal(
    response.headers.get('www-authenticate'),
    `Bearer realm="halcyon", error="invalid_token", error_description="${message}", resource_metadata="${ISSUER}/.well-known/oauth-protected-resource"`,
  );
  const body = (await response.json()) as Record<string, unknown>;
  assert.equal(body['error'], 'invalid_token');
  assert.equal(body['error_description'], message);
}
const INVALID = 'The access token provided is invalid';
const EXPIRED = 'The access token provided has expired';

test('an access token works for 7200 seconds, and is reported as expired afterwards', async () => {
  const token = await accessToken();
  wait(7_199_000);
  assert.equal((await read(alpha, token)).status, 200);
  wait(2_000);
  await assertRefused(await read(alpha, token), EXPIRED);
});

test('a text that is no token of Halcyon is an invalid token', async () => {
  const { body } = await redeem(await newCode());
  const others = ['x', `hal_at_${'a'.repeat(43)}`, String(body['refresh_token']), await newCode(), 'a'.repeat(9_000)];
  for (const token of others) await assertRefused(await read(alpha, token), INVALID);
});

test('the check takes one statement, and none for a malformed token', async () => {
  const token = await accessToken();
  statements.length = 0;
  await read(alpha, token);
  assert.equal(statements.filter((statement) => statement.includes('access_token')).length, 1);
  statements.length = 0;
  await read(alpha, 'x');
  assert.deepEqual(statements, []);
});

test('a revoked grant is rejected at the next request, also for an expired token', async () => {
  const { body } = await redeem(await newCode());
  const token = String(body['access_token']);
  assert.equal((await read(alpha, token)).status, 200);
  await sql`update access_grant set date_revoked = now()`;
  await assertRefused(await read(alpha, token), INVALID);
  wait(8_000_000);
  await assertRefused(await read(alpha, token), INVALID);
});

test('a user who leaves the store loses access at the next request, and so does a refresh', async () => {
  const { body } = await redeem(await newCode());
  const token = String(body['access_token']);
  const refresh = { grant_type: 'refresh_token', refresh_token: String(body['refresh_token']), ...server.client };
  assert.equal((await read(alpha, token)).status, 200);
  const [member] =
    await sql`delete from membership where store_id = ${alpha} and user_id = ${server.adaId} returning *`;
  await assertRefused(await read(alpha, token), INVALID);
  assert.equal((await server.token(refresh)).body['error'], 'invalid_grant');
  await sql`insert into membership select * from jsonb_populate_record(null::membership, ${sql.json(member)})`;
  assert.equal((await read(alpha, token)).status, 200, 'access returns with the membership');
  assert.equal((await server.token(refresh)).status, 200);
});

test('a user who is disabled loses access at the next request, and regains it when enabled', async () => {
  const token = await accessToken();
  assert.equal((await read(alpha, token)).status, 200);
  await sql`update users set date_disabled = now() where id = ${server.adaId}`;
  await assertRefused(await read(alpha, token), INVALID);
  await sql`update users set date_disabled = null where id = ${server.adaId}`;
  assert.equal((await read(alpha, token)).status, 200);
});

test('the last use of a grant is stored once an hour, by one more statement', async () => {
  const token = await accessToken();
  const notesOf = async (): Promise<number> => {
    statements.length = 0;
    await read(alpha, token);
    return statements.filter((statement) => statement.includes('update access_grant')).length;
  };
  const used: number[] = [];
  for (const pauseMs of [0, 0, 3_599_000, 1_000, 0]) {
    wait(pauseMs);
    used.push(await notesOf());
  }
  assert.deepEqual(used, [1, 0, 0, 1, 0]);
});

test('a rejected token stores no last use', async () => {
  const token = await accessToken();
  wait(7_201_000);
  await assertRefused(await read(alpha, token), EXPIRED);
  const hash = hashToken(token);
  const [grant] = await sql`
    select g.date_used from access_grant g join access_token t on t.grant_id = g.id where t.hash = ${hash}`;
  assert.equal(grant?.['date_used'], null);
});

test('access to the account excludes stores of other people', async () => {
  const { location } = await server.browser.consent(server.asking({ scope: 'user_full_access' }));
  const { body } = await redeem(new URL(location ?? '').searchParams.get('code') ?? '');
  assert.equal((await read(server.beta, String(body['access_token']))).status, 200);
  assert.equal((await read(foreign, String(body['access_token']))).status, 404);
});

test('a platform token ends when its client is no longer trusted', async () => {
  const { platform } = server;
  const { body } = await server.token({ grant_type: 'client_credentials', ...platform });
  const token = String(body['access_token']);
  assert.equal((await read(foreign, token)).status, 200);
  await sql`update client set trusted = false, redirect_uris = array['https://x.example/'] where client_id = ${platform.client_id}`;
  await assertRefused(await read(foreign, token), INVALID);
});

test('the deletion of a client ends its tokens', async () => {
  const token = await accessToken();
  await sql`delete from client where client_id = ${server.client.client_id}`;
  await assertRefused(await read(alpha, token), INVALID);
});

/** No credentials, those of another scheme, and a scheme without its token. */
const NO_TOKEN = [undefined, 'Basic eDp5', 'Bearer', 'hal_at_x'];

test('without a token each operation names the missing header, and no error in the challenge', async () => {
  const named = new Proxy<Record<string, string>>({}, { get: () => '1' });
  const operations = operationTable(ISSUER).filter(({ operation }) => operation.access !== 'anyone');
  assert.ok(operations.length > 60, `${operations.length} operations`);
  for (const { path, method } of operations) {
    for (const authorization of NO_TOKEN) {
      const headers = {
        'SERVICE-API-VERSION': '1',
        ...(authorization !== undefined && { Authorization: authorization }),
        ...(path.endsWith('/stream') && { Accept: 'text/event-stream' }),
      };
      const response = await fetch(server.origin + fillIn({ path }, named), { method, headers });
      const where = `${method} ${path} ${authorization}`;
      const challenge = `Bearer realm="halcyon", resource_metadata="${ISSUER}/.well-known/oauth-protected-resource"`;
      assert.deepEqual([response.status, response.headers.get('www-authenticate')], [401, challenge], where);
      const body = (await response.json()) as { _embedded: Record<string, { code: string; message: string }[]> };
      const [fault] = body._embedded['svc:errors'] ?? [];
      assert.match(fault?.message ?? '', /Authorization: Bearer/, where);
      assert.deepEqual(
        [fault?.code, body],
        ['invalid_token', { ...body, error: fault?.code, error_description: INVALID }],
      );
    }
  }
});

test('without a token the registration of a client has no error in the challenge either', async () => {
  for (const [path, method] of [
    ['/register', 'POST'],
    ['/register/1', 'GET'],
    ['/register/1', 'PUT'],
    ['/register/1', 'DELETE'],
  ] as const) {
    for (const authorization of NO_TOKEN) {
      const headers = authorization === undefined ? undefined : { Authorization: authorization };
      const response = await fetch(server.origin + path, { method, ...(headers && { headers }) });
      const body = (await response.json()) as Record<string, unknown>;
      assert.deepEqual([response.status, body['error']], [401, 'invalid_token'], `${method} ${path}`);
      assert.equal(response.headers.get('www-authenticate'), 'Bearer realm="halcyon"', `${method} ${path}`);
    }
  }
});
