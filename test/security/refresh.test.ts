/** Refresh tokens that rotate: one successor, retries until it is used, and the end of the grant after that. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { transaction } from '#db/pool.ts';
import { send } from '../setup/send.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { until } from '../setup/until.ts';
import { CONNECTIONS, REDIRECT, startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer();
const { sql, client, other, newCode, redeem, token, read, wait, alpha, statements } = server;
const second = await server.startSecond();

const DAY_MS = 86_400_000;
const OTHER_REDIRECT = 'https://other.example.com/cb';

async function setRotation({ client_id: id }: typeof client, rotates: boolean): Promise<void> {
  await sql`update client set rotates_refresh_tokens = ${rotates} where client_id = ${id}`;
}
// The first client rotates, the other is stable, which is the default.
await setRotation(client, true);

type Answer = Awaited<ReturnType<typeof token>>;
const accessOf = ({ body }: Answer): string => String(body['access_token']);
const refreshOf = ({ body }: Answer): string => String(body['refresh_token']);
const outcome = ({ status, body }: Answer) => [status, body['error'] ?? 'ok'];
const OK = [200, 'ok'];
const INVALID_GRANT = [400, 'invalid_grant'];

const newPair = async (): Promise<Answer> => redeem(await newCode());
const refresh = (refreshToken: string, changes: Record<string, string> = {}) =>
  token({ grant_type: 'refresh_token', refresh_token: refreshToken, ...client, ...changes });

test('a rotating client gets a successor, in one statement, and the successor works', async () => {
  const first = await newPair();
  statements.length = 0;
  const next = await refresh(refreshOf(first));
  assert.equal(statements.length, 1);
  assert.deepEqual(outcome(next), OK);
  assert.match(refreshOf(next), /^hal_rt_[A-Za-z0-9_-]{43}$/);
  assert.notEqual(refreshOf(next), refreshOf(first));
  assert.equal((await read(alpha, accessOf(next))).status, 200);
  const third = await refresh(refreshOf(next));
  assert.deepEqual(outcome(third), OK);
  assert.equal(new Set([first, next, third].map(refreshOf)).size, 3);
});

const hashOf = (value: string) => createHash('sha256').update(value).digest();

test('a client that loses responses gets the same successor and a new access token each time', async () => {
  const first = refreshOf(await newPair());
  const answers = [await refresh(first)];
  for (const seconds of [12, 86_400, 20 * 86_400]) {
    wait(seconds * 1_000);
    answers.push(await refresh(first));
  }
  assert.deepEqual(
    answers.map(outcome),
    answers.map(() => OK),
  );
  assert.equal(new Set(answers.map(refreshOf)).size, 1);
  assert.equal(new Set(answers.map(accessOf)).size, 4);
  const [last = await newPair()] = answers.slice(-1);
  assert.equal((await read(alpha, accessOf(last))).status, 200);
  assert.deepEqual(outcome(await refresh(refreshOf(last))), OK);
  wait(-(12 + 21 * 86_400) * 1_000);
});

const introspected = async ({ body }: Answer) =>
  send(`${server.origin}/introspect`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${accessOf(await token({ grant_type: 'client_credentials', ...server.platform }))}`,
    },
    body: new URLSearchParams({ token: String(body['access_token']) }),
  });
const uses: Readonly<Record<string, (next: Answer, retry: Answer) => Promise<{ status: number }>>> = {
  'its successor is used': (next) => refresh(refreshOf(next)),
  'the access token of its successor is used': (next) => read(alpha, accessOf(next)),
  'the access token of a retry is used': (_, retry) => read(alpha, accessOf(retry)),
  'a resource server introspects the access token of its successor': introspected,
};
for (const [what, use] of Object.entries(uses))
  test(`a rotated token that is used after ${what} ends the grant`, async () => {
    const first = await newPair();
    const next = await refresh(refreshOf(first));
    const retry = await refresh(refreshOf(first));
    // Access tokens of the time before, which the client has, say nothing about the successor.
    assert.equal((await read(alpha, accessOf(first))).status, 200);
    assert.equal((await use(next, retry)).status, 200);
    assert.deepEqual(outcome(await refresh(refreshOf(first))), INVALID_GRANT);
    assert.equal((await read(alpha, accessOf(next))).status, 401);
    assert.deepEqual(outcome(await refresh(refreshOf(next))), INVALID_GRANT);
  });

test('the first use of an access token writes, and no later one', async () => {
  const next = await refresh(refreshOf(await newPair()));
  const counts: number[] = [];
  for (let at = 0; at < 3; at += 1) {
    statements.length = 0;
    await read(alpha, accessOf(next));
    counts.push(statements.filter((text) => /^\s*(?:update|with)\b/.test(text)).length);
  }
  assert.deepEqual(counts, [2, 0, 0]);
});

test('of the access tokens of retries only the newest fifty remain', async () => {
  const first = refreshOf(await newPair());
  const hashes = sql`select hash from access_token where predecessor = ${hashOf(first)} order by date_expires`;
  const answers: Answer[] = [];
  for (let at = 0; at < 53; at += 1) {
    wait(1);
    answers.push(await refresh(first));
  }
  assert.deepEqual(
    (await hashes).map(({ hash }) => Buffer.from(hash as Buffer).toString('hex')),
    answers.slice(3).map((answer) => hashOf(accessOf(answer)).toString('hex')),
  );
});

test('a retry that waited while an access token came into use does not end that access token', async () => {
  const first = refreshOf(await newPair());
  const oldest = await refresh(first);
  for (let at = 0; at < 49; at += 1) {
    wait(1);
    await refresh(first);
  }
  const retry = await transaction(sql, async (tx) => {
    await tx`select from access_token where hash = ${hashOf(accessOf(oldest))} for update`;
    const waiting = refresh(first);
    await until(
      () => waitingForLocks(sql),
      (count) => count === 1,
    );
    await tx`update access_token set predecessor = null where hash = ${hashOf(accessOf(oldest))}`;
    return { waiting };
  });
  assert.deepEqual(outcome(await retry.waiting), OK);
  assert.equal((await read(alpha, accessOf(oldest))).status, 200);
});

test('retries, refreshes with the successor and uses of its access token at the same time wait for each other in one order', async () => {
  const first = refreshOf(await newPair());
  const oldest = await refresh(first);
  for (let at = 0; at < 49; at += 1) {
    wait(1);
    await refresh(first);
  }
  // The retry is the first to get the row of the rotated token, while the second request has locked the access token that is surplus.
  const requests = [() => refresh(first), () => read(alpha, accessOf(oldest)), () => refresh(refreshOf(oldest))];
  const running = await transaction(sql, async (tx) => {
    await tx`select from refresh_token where hash = ${hashOf(first)} for update`;
    const started: Promise<{ status: number }>[] = [];
    for (const request of requests) {
      started.push(request());
      await until(
        () => waitingForLocks(sql),
        (count) => count === started.length,
      );
    }
    return { started };
  });
  const answers = await Promise.all(running.started);
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200],
  );
});

test('a token that a process of the version before has rotated may be used again for ten seconds', async () => {
  const [one, two] = [refreshOf(await newPair()), refreshOf(await newPair())];
  for (const first of [one, two]) {
    await refresh(first);
    await sql`update refresh_token set successor_used = null where hash = ${hashOf(first)}`;
  }
  wait(9_000);
  assert.deepEqual(outcome(await refresh(one)), OK);
  wait(2_000);
  for (const first of [one, two]) assert.deepEqual(outcome(await refresh(first)), INVALID_GRANT);
});

test('the end by reuse is in the audit, once, with its grant', async () => {
  const first = await newPair();
  await read(alpha, accessOf(await refresh(refreshOf(first))));
  await sql`delete from audit`;
  await refresh(refreshOf(first));
  await refresh(refreshOf(first));
  const [row, ...others] = await sql`
    select a.action, a.user_id, c.client_id, a.store_id, a.address from audit a join client c on c.id = a.client`;
  assert.deepEqual(
    { ...row },
    {
      action: 'refresh_token_reused',
      user_id: server.adaId,
      client_id: client.client_id,
      store_id: alpha,
      address: '127.0.0.1',
    },
  );
  assert.deepEqual(others, []);
});

test('another client that presents a rotated token ends nothing', async () => {
  const first = await newPair();
  const next = await refresh(refreshOf(first));
  assert.equal((await read(alpha, accessOf(next))).status, 200);
  assert.deepEqual(outcome(await refresh(refreshOf(first), other)), INVALID_GRANT);
  assert.equal((await read(alpha, accessOf(next))).status, 200);
});

test('fifty parallel refreshes over two servers all succeed with one and the same successor', async () => {
  const first = refreshOf(await newPair());
  const form = new URLSearchParams({ grant_type: 'refresh_token', refresh_token: first, ...client });
  const post = async (origin: string) => {
    const response = await fetch(`${origin}/token`, { method: 'POST', body: form });
    return { status: response.status, body: (await response.json()) as Record<string, string> };
  };
  // The row is locked until every connection of both servers waits for it, so that it is a race each time.
  const { asked } = await transaction(sql, async (tx) => {
    await tx`select from refresh_token where hash = ${hashOf(first)} for update`;
    const all = Promise.all(Array.from({ length: 50 }, (_, at) => post(at % 2 === 0 ? server.origin : second)));
    await until(
      () => waitingForLocks(sql),
      (count) => count >= 2 * CONNECTIONS,
    );
    return { asked: all };
  });
  const answers = await asked;
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  assert.equal(new Set(answers.map(({ body }) => body['refresh_token'])).size, 1);
  assert.equal(new Set(answers.map(({ body }) => body['access_token'])).size, 50);
});

test('a rotated token is kept for thirty days, and its reuse detected', async () => {
  const [one, two] = [await newPair(), await newPair()];
  const [afterOne, afterTwo] = [await refresh(refreshOf(one)), await refresh(refreshOf(two))];
  for (const next of [afterOne, afterTwo]) assert.equal((await read(alpha, accessOf(next))).status, 200);
  wait(29 * DAY_MS);
  assert.deepEqual(outcome(await refresh(refreshOf(one))), INVALID_GRANT);
  assert.deepEqual(outcome(await refresh(refreshOf(afterOne))), INVALID_GRANT, 'noticed');
  wait(2 * DAY_MS);
  assert.deepEqual(outcome(await refresh(refreshOf(two))), INVALID_GRANT);
  assert.deepEqual(outcome(await refresh(refreshOf(afterTwo))), OK, 'forgotten');
  wait(-31 * DAY_MS);
});

test('a successor expires when it is unused for a year', async () => {
  const first = await refresh(refreshOf(await newPair()));
  wait(363 * DAY_MS);
  const next = await refresh(refreshOf(first));
  assert.deepEqual(outcome(next), OK);
  wait(366 * DAY_MS);
  assert.deepEqual(outcome(await refresh(refreshOf(next))), INVALID_GRANT);
  wait(-729 * DAY_MS);
});

for (const rotates of [true, false])
  test(`access ends two years after the consent, however often it is refreshed: ${rotates ? 'rotating' : 'stable'}`, async () => {
    await setRotation(client, rotates);
    let last = await newPair();
    for (let day = 180; day < 730; day += 180) {
      wait(180 * DAY_MS);
      last = await refresh(refreshOf(last));
      assert.deepEqual(outcome(last), OK);
    }
    wait(10 * DAY_MS - 1_000);
    last = await refresh(refreshOf(last));
    assert.deepEqual(outcome(last), OK);
    const [row] = await sql<{ left: number }[]>`
      select extract(epoch from r.date_expires - ${server.now()})::int as left from refresh_token r
      where r.hash = ${hashOf(refreshOf(last))}`;
    assert.equal(row?.left, 1);
    wait(1_000);
    assert.deepEqual(outcome(await refresh(refreshOf(last))), INVALID_GRANT);
    // Also of a token that was issued under a longer maximum.
    await sql`update refresh_token set date_expires = ${server.now()}::timestamptz + interval '1 day'`;
    assert.deepEqual(outcome(await refresh(refreshOf(last))), INVALID_GRANT);
    wait(-730 * DAY_MS);
    await setRotation(client, true);
  });

test('a token of a client that changes from stable to rotating rotates at its next use', async () => {
  const code = await newCode({ client_id: other.client_id, redirect_uri: OTHER_REDIRECT });
  const first = await redeem(code, { ...other, redirect_uri: OTHER_REDIRECT });
  const stable = await refresh(refreshOf(first), other);
  assert.equal(refreshOf(stable), refreshOf(first));
  await setRotation(other, true);
  const rotated = await refresh(refreshOf(first), other);
  assert.deepEqual(outcome(rotated), OK);
  assert.notEqual(refreshOf(rotated), refreshOf(first));
  await setRotation(other, false);
  const retry = await refresh(refreshOf(first), other);
  assert.equal(refreshOf(retry), refreshOf(rotated), 'a rotated token stays rotated when the client changes back');
  const kept = await refresh(refreshOf(rotated), other);
  assert.equal(refreshOf(kept), refreshOf(rotated));
});

test('the token of a disabled user is rejected, and works again when the user is enabled', async () => {
  const first = await newPair();
  await sql`update users set date_disabled = now() where id = ${server.adaId}`;
  assert.deepEqual(outcome(await refresh(refreshOf(first))), INVALID_GRANT);
  await sql`update users set date_disabled = null where id = ${server.adaId}`;
  assert.deepEqual(outcome(await refresh(refreshOf(first))), OK);
});

test('a rejected scope rotates nothing', async () => {
  const first = await newPair();
  for (const scope of ['user_full_access', 'store_full_access '.repeat(2_000)])
    assert.deepEqual(outcome(await refresh(refreshOf(first), { scope })), [400, 'invalid_scope']);
  assert.equal((await read(alpha, accessOf(first))).status, 200);
  assert.deepEqual(outcome(await refresh(refreshOf(first))), OK);
});

test('a public client refreshes by its client_id alone and gets a successor', async () => {
  const verifier = 'v'.repeat(43);
  const challenge = createHash('sha256').update(verifier).digest('base64url');
  const code = await newCode({ code_challenge: challenge, code_challenge_method: 'S256' });
  await sql`update client set is_public = true where client_id = ${client.client_id}`;
  const { client_id } = client;
  const form = { grant_type: 'authorization_code', code, redirect_uri: REDIRECT, client_id, code_verifier: verifier };
  const first = await token(form);
  assert.deepEqual(outcome(first), OK);
  const next = await token({ grant_type: 'refresh_token', refresh_token: refreshOf(first), client_id });
  assert.deepEqual(outcome(next), OK);
  assert.notEqual(refreshOf(next), refreshOf(first));
  await sql`update client set is_public = false where client_id = ${client_id}`;
});
