/** The device authorization grant (RFC 8628): a device shows a code, a person allows it in a browser, the device polls. */
import assert from 'node:assert/strict';
import { createHash, createHmac } from 'node:crypto';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { transaction } from '#db/pool.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { amountOf } from '../setup/amount.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { until } from '../setup/until.ts';
import { createBrowser, ISSUER, readForm, startAuthorizationServer, type Browser } from '../security/oauth-server.ts';
import { anyText } from '../setup/any-text.ts';
import { send } from '../setup/send.ts';

const GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
const DAY_MS = 86_400_000;
const server = await startAuthorizationServer();
const { sql, origin, token, read, wait, alpha, adaId, browser, now } = server;

const device = { redirectUris: ['http://127.0.0.1/callback'], trusted: false, allowsDeviceGrant: true, now: now() };
const tv = await createClient(sql, { isPublic: true, ...device, name: 'Television' });
const kiosk = await createClient(sql, { ...device, name: 'Kiosk' });

type Device = { device_code: string; user_code: string; verification_uri: string; verification_uri_complete: string };

async function ask(form: Record<string, string> | string): Promise<{ status: number; body: Record<string, unknown> }> {
  const { status, text } = await send(`${origin}/device_authorization`, {
    method: 'POST',
    body: new URLSearchParams(form),
  });
  return { status, body: JSON.parse(text) as Record<string, unknown> };
}

/** Starts an authorization on a day of its own, so that no limit of another test applies. */
async function begin(client: Record<string, string> = tv, scope = 'store_full_access'): Promise<Device> {
  wait(DAY_MS);
  await browser.signIn(server.ada);
  const { status, body } = await ask({ scope, ...client });
  assert.equal(status, 200, JSON.stringify(body));
  return body as Device;
}

const poll = ({ device_code }: Device, client: Record<string, string> = tv) =>
  token({ grant_type: GRANT, device_code, ...client });
const outcome = ({ status, body }: Awaited<ReturnType<typeof poll>>) => [status, body['error'] ?? 'ok'];

const pageOf = (code: string, by: Browser = browser) =>
  by.open(`/device?${new URLSearchParams({ user_code: code }).toString()}`);

async function decide({ user_code }: Device, decision: string, by: Browser = browser) {
  const { action, nonce } = readForm(await pageOf(user_code, by));
  return by.post(action, { nonce, decision, store: String(alpha) });
}

const grants = async () => (await sql`select from access_grant`).length;

test('a person enters the code of a device, chooses a store, and the device gets tokens once', async () => {
  const asked = await begin();
  assert.match(asked.user_code, /^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/);
  assert.equal(asked.verification_uri, `${ISSUER}/device`);
  assert.equal(asked.verification_uri_complete, `${ISSUER}/device?user_code=${asked.user_code}`);
  assert.deepEqual(outcome(await poll(asked)), [400, 'authorization_pending']);

  const entry = await browser.open('/device');
  assert.equal(entry.status, 200);
  assert.match(entry.text, /<form method="get" action="\/device">/);
  const page = await pageOf(asked.user_code.toLowerCase().replace('-', ' '));
  assert.ok(page.text.includes(asked.user_code) && page.text.includes('Television'), 'the page shows the code');
  assert.match(page.headers.get('content-security-policy') ?? '', /default-src 'none'.*form-action 'self';/);
  const done = await decide(asked, 'allow');
  assert.deepEqual([done.status, done.location], [200, null]);

  const { status, body } = await poll(asked);
  assert.equal(status, 200);
  assert.equal(body['scope'], `store_full_access store_id_${alpha}`);
  assert.equal((await read(alpha, String(body['access_token']))).status, 200);
  const refresh = { grant_type: 'refresh_token', refresh_token: String(body['refresh_token']), ...tv };
  assert.equal((await token(refresh)).status, 200);
  assert.deepEqual(outcome(await poll(asked)), [400, 'invalid_grant']);
  assert.equal((await read(alpha, String(body['access_token']))).status, 200, 'a late poll ends nothing');
  assert.equal((await pageOf(asked.user_code)).status, 422, 'the code works once');
  const [recorded] = await sql<{ action: string; user_id: number }[]>`
    select action, user_id from audit where action like 'grant_%' order by id desc limit 1`;
  assert.deepEqual(recorded, { action: 'grant_given', user_id: adaId });
});

test('a denial is access_denied, and the code is used', async () => {
  const asked = await begin(kiosk);
  const before = await grants();
  assert.equal((await decide(asked, 'deny')).status, 200);
  assert.deepEqual(outcome(await poll(asked, kiosk)), [400, 'access_denied']);
  assert.equal((await pageOf(asked.user_code)).status, 422);
  assert.equal(await grants(), before);
  const [last] = await sql<{ action: string }[]>`select action from audit order by id desc limit 1`;
  assert.equal(last?.action, 'grant_denied');
});

test('a device that polls too fast has to wait 5 seconds longer each time', async () => {
  const asked = await begin();
  const steps = [
    [0, 'authorization_pending'],
    [3_000, 'slow_down'],
    [8_000, 'slow_down'],
    [12_000, 'slow_down'],
    [20_000, 'authorization_pending'],
    [20_000, 'authorization_pending'],
  ] as const;
  for (const [pauseMs, error] of steps) {
    wait(pauseMs);
    assert.deepEqual(outcome(await poll(asked)), [400, error], String(pauseMs));
  }
});

test('a code that expires is expired_token before and after an approval, and an unknown one later', async () => {
  const [waiting, approved] = [await begin(), await begin()];
  assert.deepEqual(outcome(await poll(waiting)), [400, 'expired_token']);
  await decide(approved, 'allow');
  wait(600_000);
  assert.deepEqual(outcome(await poll(approved)), [400, 'expired_token']);
  assert.equal((await pageOf(waiting.user_code)).status, 422);
  assert.deepEqual(outcome(await poll({ ...waiting, device_code: `hal_dc_${'a'.repeat(43)}` })), [
    400,
    'invalid_grant',
  ]);
});

test('only the client that asked can redeem a device code, and nothing else redeems it', async () => {
  const asked = await begin();
  assert.deepEqual(outcome(await poll(asked, kiosk)), [400, 'invalid_grant']);
  await decide(asked, 'allow');
  assert.deepEqual(outcome(await poll(asked, kiosk)), [400, 'invalid_grant']);
  const asCode = { grant_type: 'authorization_code', code: asked.device_code, redirect_uri: '', ...tv };
  assert.deepEqual(outcome(await token(asCode)), [400, 'invalid_grant']);
  assert.deepEqual(outcome(await poll(asked)), [200, 'ok']);
});

test('a client needs the grant, its credentials, a scope and the right resource', async () => {
  await begin();
  const scope = 'store_full_access';
  const rows: [Record<string, string>, number, string][] = [
    [{ scope, ...server.client }, 400, 'unauthorized_client'],
    [{ scope, ...kiosk, client_secret: 'x' }, 401, 'invalid_client'],
    [{ scope }, 401, 'invalid_client'],
    [{ ...tv }, 400, 'invalid_scope'],
    [{ scope: '', ...tv }, 400, 'invalid_scope'],
    [{ scope: 'platform', ...tv }, 400, 'invalid_scope'],
    [{ scope, ...tv, resource: 'https://other.example' }, 400, 'invalid_target'],
  ];
  for (const [form, status, error] of rows) {
    const answer = await ask(form);
    assert.deepEqual([answer.status, answer.body['error']], [status, error]);
  }
});

test('without a session the page leads to sign-in and back, with the code', async () => {
  const asked = await begin();
  const stranger = createBrowser(origin);
  const { status, location } = await pageOf(asked.user_code, stranger);
  const returnTo = new URL(location ?? '', origin).searchParams.get('return_to');
  assert.deepEqual([status, returnTo], [303, `/device?user_code=${asked.user_code}`]);
  const signedIn = await stranger.post('/sign-in', {
    email: server.bob,
    password: 'correct horse battery',
    return_to: returnTo ?? '',
  });
  assert.equal(signedIn.location, returnTo);
});

test('wrong codes are throttled by person and by address, the right one is not counted', async () => {
  const asked = await begin();
  for (let index = 0; index < 12; index += 1) assert.equal((await pageOf(asked.user_code)).status, 200);
  for (let index = 0; index < 10; index += 1) assert.equal((await pageOf('BBBBBBBB')).status, 422);
  const refused = await pageOf(asked.user_code);
  assert.equal(refused.status, 429);
  assert.ok(Number(refused.headers.get('retry-after')) > 0);
  // Another person at the same address has a count of their own, until that of the address is used up.
  const other = createBrowser(origin);
  await other.signIn(server.bob);
  for (let index = 0; index < 10; index += 1) assert.equal((await pageOf('BBBBBBBB', other)).status, 422);
  assert.equal((await pageOf('BBBBBBBB', other)).status, 429);
  wait(60_000);
  assert.equal((await pageOf(asked.user_code)).status, 200);
});

test('an address gets 30 codes, then one every 20 seconds, with whatever client', async () => {
  await begin();
  const before = (await sql`select from device_authorization`).length;
  const mine = await createClient(sql, { ...device, name: 'One more' });
  const clients = [tv, kiosk, mine, { client_id: 'app-unknown' }, { ...kiosk, client_secret: 'x' }];
  const asking = (index: number) => ask({ scope: 'store_full_access', ...clients[index % clients.length] });
  const statuses: number[] = [];
  for (let index = 0; index < 29; index += 1) statuses.push((await asking(index)).status);
  assert.deepEqual(new Set(statuses), new Set([200, 401]));
  for (let index = 0; index < clients.length; index += 1) assert.equal((await asking(index)).status, 429);
  const made = (await sql`select from device_authorization`).length - before;
  assert.equal(made, statuses.filter((status) => status === 200).length);
  wait(20_000);
  assert.equal((await asking(1)).status, 200);
  assert.equal((await asking(1)).status, 429);
});

test('a form of another session, code or page is not accepted', async () => {
  const [one, two] = [await begin(), (await ask({ scope: 'user_full_access', ...tv })).body as Device];
  const { nonce } = readForm(await pageOf(one.user_code));
  const answer = await browser.post(`/device?user_code=${two.user_code}`, { nonce, decision: 'allow' });
  assert.equal(answer.status, 403);
  assert.deepEqual(outcome(await poll(two)), [400, 'authorization_pending']);
});

test('of many polls at once after the approval one gets tokens', async () => {
  const asked = await begin();
  await decide(asked, 'allow');
  const hash = createHash('sha256').update(asked.device_code).digest();
  const { answers } = await transaction(sql, async (tx) => {
    await tx`select from authorization_code where hash = ${hash} for update`;
    const polls = Promise.all(Array.from({ length: 4 }, () => poll(asked)));
    await until(
      () => waitingForLocks(sql),
      (count) => count >= 4,
    );
    return { answers: polls };
  });
  const outcomes = (await answers).map((answer) => JSON.stringify(outcome(answer)));
  assert.deepEqual(outcomes.toSorted(), ['[200,"ok"]', ...Array.from({ length: 3 }, () => '[400,"invalid_grant"]')]);
  const [{ count } = { count: NaN }] = await sql<{ count: number }[]>`
    select count(*) from access_token t join authorization_code c on c.grant_id = t.grant_id where c.hash = ${hash}`;
  assert.equal(count, 1);
});

test('of an approval and a denial at once one decides', async () => {
  for (const order of [
    ['allow', 'deny'],
    ['deny', 'allow'],
    ['allow', 'allow'],
  ]) {
    const asked = await begin();
    const before = await grants();
    const hash = createHash('sha256').update(asked.device_code).digest();
    const { answers } = await transaction(sql, async (tx) => {
      await tx`select from device_authorization where hash = ${hash} for update`;
      const decisions: ReturnType<typeof decide>[] = [];
      for (const decision of order) {
        decisions.push(decide(asked, decision));
        // The row is given to the waiting ones in their order.
        await until(
          () => waitingForLocks(sql),
          (count) => count >= decisions.length,
        );
      }
      return { answers: Promise.all(decisions) };
    });
    const statuses = (await answers).map(({ status }) => status);
    assert.deepEqual(statuses, [200, 422]);
    const isAllowed = order[0] === 'allow';
    assert.deepEqual(outcome(await poll(asked)), isAllowed ? [200, 'ok'] : [400, 'access_denied']);
    assert.equal((await grants()) - before, isAllowed ? 1 : 0);
  }
});

test('the database has no code in clear text, and a user code cannot be found from its hash', async () => {
  const asked = await begin();
  const code = asked.user_code.replace('-', '');
  const rows = await sql<{ hash: Buffer; user_code_hash: Buffer }[]>`
    select hash, user_code_hash, d::text as text from device_authorization d`;
  assert.ok(!JSON.stringify(rows).includes(code) && !JSON.stringify(rows).includes(asked.device_code));
  const plain = [createHash('sha256'), createHmac('sha256', '')].map((hash) => hash.update(code).digest());
  assert.ok(rows.length > 0 && rows.every(({ user_code_hash: hash }) => !plain.some((guess) => guess.equals(hash))));
});

const text = fc.oneof(anyText({ maxLength: 40 }), fc.constantFrom('\0', '%ff', '"', '\r\n', 'BBBB-BBBB'));
const encode = (value: string): string => encodeURIComponent(value.toWellFormed());

test('no form makes /device_authorization or the token endpoint fail', async () => {
  await begin();
  const name = fc.constantFrom('scope', 'resource', 'device_code', 'client_id', 'grant_type', 'x');
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(name, text), { maxLength: 6 }), fc.boolean(), async (fields, isKnown) => {
      const own = isKnown ? [['grant_type', GRANT], ...Object.entries(kiosk)] : [];
      const all = [...own, ...fields.filter(([field]) => !own.some(([taken]) => taken === field))];
      const body = all.map((pair) => pair.map((part) => encode(part)).join('=')).join('&');
      wait(20_000);
      for (const path of ['/device_authorization', '/token']) {
        const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
        const response = await fetch(origin + path, { method: 'POST', headers, body });
        assert.ok(response.status >= 400 && response.status < 500, `${path} ${response.status} ${body}`);
        const { error, error_description: described } = (await response.json()) as Record<string, string>;
        assert.match(String(error), /^[a-z_]+$/);
        assert.match(String(described), /^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/);
      }
    }),
    { numRuns: amountOf('any-form', { all: 150, part: 40 }) },
  );
});

test('no query and no form makes /device fail or decide', async () => {
  const asked = await begin();
  const before = await grants();
  await fc.assert(
    fc.asyncProperty(
      text,
      fc.dictionary(fc.constantFrom('nonce', 'decision', 'store', 'resume'), text),
      async (code, form) => {
        const path = `/device?user_code=${encode(code)}`;
        const [shown, posted] = [await browser.open(path), await browser.post(path, form)];
        for (const { status } of [shown, posted]) assert.ok([200, 400, 422, 429].includes(status), `${status} ${path}`);
        const mine = await browser.post(`/device?user_code=${asked.user_code}`, form);
        assert.ok([400, 403, 429].includes(mine.status), String(mine.status));
        wait(5_000);
      },
    ),
    { numRuns: 40 },
  );
  assert.equal(await grants(), before);
});
