/** Links of the platform: one use, one store, and nothing that needs a proof of who the person is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createUser } from '#identity/accounts/users.ts';
import { addMember } from '#stores/store.ts';
import { formsIn } from '../setup/form-filler.ts';
import { passwords } from '../setup/passwords.ts';
import { readConfig } from '../../src/config/config.ts';
import { createBrowser, PASSWORD, startAuthorizationServer, type Browser } from './oauth-server.ts';
import { enrol, makeOperator } from './operators.ts';
import { hiddenIn } from './page-forms.ts';
import { fillIn, routeTable } from './route-table.ts';

const FRAMING = ['https://admin.example.com', 'https://shop.example.com:8443'];
const server = await startAuthorizationServer({ PORTAL_FRAME_ORIGINS: FRAMING.join(', ') }, { isResolvable: true });
const { sql, origin, alpha, beta, foreign, adaId, bobId, wait } = server;
type Server = typeof server;

async function call(
  method: string,
  path: string,
  body?: object,
  { at = server, token }: { at?: Server; token?: string } = {},
) {
  const form = { grant_type: 'client_credentials', scope: 'platform', ...at.platform };
  const bearer = token ?? String((await at.token(form)).body['access_token']);
  const response = await fetch(at.origin + path, {
    method,
    headers: { 'SERVICE-API-VERSION': '1', 'Content-Type': 'application/json', Authorization: `Bearer ${bearer}` },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}
const codesOf = ({ text }: { text: string }): unknown[] => {
  type Fault = { code: string };
  const body = JSON.parse(text) as Fault & { _embedded?: Record<string, Fault[]> };
  return (body._embedded?.['svc:errors'] ?? [body]).map(({ code }) => code);
};

/** Returns the path of a new link. */
async function linkFor(userId: number, storeId = alpha): Promise<string> {
  const { status, headers, text } = await call('POST', `/stores/${storeId}/links`, { user: userId });
  assert.equal(status, 201, text);
  const { url } = JSON.parse(text) as { url: string };
  assert.deepEqual([headers.get('cache-control'), headers.get('location')], ['no-store', url]);
  assert.match(url, new RegExp(`^${origin}/portal\\?token=hal_pl_[A-Za-z0-9_-]{43}$`));
  return url.slice(origin.length);
}

const IN_FRAME = { 'Sec-Fetch-Dest': 'iframe' };
const HTML = { Accept: 'text/html' };
/** A browser that asks for pages, and enters no password. */
function newBrowser(at = origin): Browser {
  const browser = createBrowser(at, { confirms: false });
  return {
    ...browser,
    open: (path, headers) => browser.open(path, { ...HTML, ...headers }),
    post: (path, form, headers) => browser.post(path, form, { ...HTML, ...headers }),
  };
}

/** Opens the link and presses the button of its page. */
async function follow(browser: Browser, path: string, headers = {}) {
  const page = await browser.open(path, headers);
  return page.status === 200 ? browser.post('/portal', hiddenIn(page, '/portal'), headers) : page;
}
const overview = `/stores/${alpha}/overview`;

/** A browser in which a member of Alpha has opened a link. */
async function visiting(userId = adaId, headers = {}): Promise<Browser> {
  const browser = newBrowser();
  const { status, location } = await follow(browser, await linkFor(userId), headers);
  assert.deepEqual([status, location], [303, overview]);
  return browser;
}
const isIn = async (browser: Browser, headers = {}): Promise<boolean> =>
  (await browser.open(overview, headers)).status === 200;

let people = 0;
async function newMember(role: 'owner' | 'member' = 'owner') {
  const email = `person${(people += 1)}@example.com`;
  const { id } = await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  await addMember(sql, { storeId: alpha, userId: id, role, now: server.now() });
  return { id, email };
}

test('a link opens its store once, and what only reads it does not use it up', async () => {
  const path = await linkFor(adaId);
  const [scanner, person, thief] = [newBrowser(), newBrowser(), newBrowser()];
  await scanner.head(path);
  const page = await scanner.open(path);
  assert.deepEqual([page.status, scanner.jar.size, page.headers.get('cache-control')], [200, 0, 'no-store']);
  assert.match(page.text, /Alpha.*ada@example\.com/s);
  assert.equal((await follow(person, path)).location, overview);
  assert.equal(await isIn(person), true);
  const replayed = await thief.post('/portal', hiddenIn(page, '/portal'));
  assert.deepEqual([replayed.status, thief.jar.size, (await thief.open(path)).status], [410, 0, 410]);
});

test('a link works for a minute, and its session for two hours', async () => {
  const [early, late] = [await linkFor(adaId), await linkFor(adaId)];
  wait(59_000);
  const browser = newBrowser();
  assert.equal((await follow(browser, early)).status, 303);
  wait(1_000);
  assert.equal((await follow(newBrowser(), late)).status, 410);
  wait(7_200_000 - 2_000);
  assert.equal(await isIn(browser), true);
  wait(1_000);
  assert.equal(await isIn(browser), false);
});

test('of concurrent uses of one link in two processes one succeeds', async () => {
  const path = await linkFor(adaId);
  const origins = [origin, await server.startSecond()];
  const form = hiddenIn(await newBrowser().open(path), '/portal');
  // More in each process than it has connections, and each with the cookie of a session.
  const uses = Array.from({ length: 40 }, (_, n) => {
    const browser = newBrowser(origins[n % 2]);
    browser.jar.set('halcyon', 'A'.repeat(43));
    return browser.post('/portal', form);
  });
  const statuses = (await Promise.all(uses)).map(({ status }) => status).toSorted((a, b) => a - b);
  assert.deepEqual(statuses, [303, ...Array.from({ length: 39 }, () => 410)]);
});

test('the session is signed out at every address except those of its store, also of an operator with a second factor', async () => {
  const person = await newMember();
  const whole = createBrowser(origin);
  await whole.signIn(person.email);
  await makeOperator(server, person.id);
  await enrol(server, whole);
  await addMember(sql, { storeId: beta, userId: person.id, role: 'owner', now: server.now() });
  const [guest, stranger] = [await visiting(person.id), newBrowser()];
  assert.equal(await isIn(guest), true);
  const named = {
    store_id: String(beta),
    user_id: String(person.id),
    client_id: server.client.client_id,
    resource_type: 'transaction',
    action: 'created',
    token: 'x',
    file: 'x',
    page: 'oauth',
    provider: 'Acme',
    collection: 'transactions',
    relation: 'items',
    rel: 'webhooks',
  };
  const ids = ['grant', 'session', 'passkey', 'identity', 'webhook', 'event', 'recovery', 'delivery', 'invitation'];
  const filled = { ...named, id: '1', ...Object.fromEntries(ids.map((name) => [`${name}_id`, '1'])) };
  const routes = routeTable(origin).filter(
    ({ operations, path }) => 'GET' in operations && !path.includes('webhook_id'),
  );
  for (const route of routes) {
    const path = fillIn(route, filled);
    const [seen, others] = [await guest.open(path), await stranger.open(path)];
    assert.deepEqual([seen.status, seen.location], [others.status, others.location], path);
  }
  assert.ok(routes.length > 60);
  assert.equal((await guest.open(`/webhooks/${await newWebhook(beta)}`)).status, 404);
  assert.equal((await guest.open(`/webhooks/${await newWebhook(alpha)}`)).status, 200);
});

async function newWebhook(storeId: number): Promise<number> {
  const body = {
    name: 'Hook',
    format: 'partner_automation',
    url: 'https://a.example/hook',
    events: ['transaction/created'],
    encryption_key: 'an unseen key of a webhook',
    is_active: '0',
  };
  const token = await memberToken(storeId);
  const { status, text } = await call('POST', `/stores/${storeId}/webhooks`, body, { token });
  assert.equal(status, 201, text);
  return (JSON.parse(text) as { id: number }).id;
}
async function memberToken(storeId: number): Promise<string> {
  const { browser, client } = server;
  await browser.signIn(server.ada);
  const { location } = await browser.consent(server.asking({ scope: `store_full_access store_id_${storeId}` }), {
    store: String(storeId),
  });
  const code = new URL(location ?? '').searchParams.get('code') ?? '';
  return String((await server.redeem(code, client)).body['access_token']);
}

test('the session is no owner, sees no secret, and sends none to another address', async () => {
  const guest = await visiting();
  const webhook = await newWebhook(alpha);
  const page = await guest.open(`/webhooks/${webhook}`);
  assert.equal(page.status, 200);
  assert.equal(page.text.includes('an unseen key of a webhook'), false);
  const at = `/webhooks/${webhook}`;
  const change = formsIn(page.text).find((one) => one.method === 'PATCH' && one.action === at)?.form;
  assert.ok(change);
  change.set('url', 'https://elsewhere.example/hook');
  assert.match((await guest.post(at, [...change])).location ?? '', /^\/sign-in\?/);
  const [stored] = await sql<{ url: string }[]>`select url from webhook where id = ${webhook}`;
  assert.equal(stored?.url, 'https://a.example/hook');
  const owner = newBrowser();
  await owner.signIn(server.ada);
  const formsAt = async (browser: Browser, path: string) =>
    formsIn((await browser.open(path)).text).map(({ method, action }) => `${method} ${action}`);
  const ofOwners: readonly (readonly [page: string, form: string])[] = [
    [`/stores/${alpha}/members`, `POST /stores/${alpha}/invitations`],
    [`/stores/${alpha}/invitations`, `POST /stores/${alpha}/invitations`],
    [`/stores/${alpha}/members/${adaId}`, `PATCH /stores/${alpha}/members/${adaId}`],
  ];
  for (const [path, form] of ofOwners) {
    const [shown, hidden] = [await formsAt(owner, path), await formsAt(guest, path)];
    assert.deepEqual([shown.includes(form), hidden.includes(form)], [true, false], `${path}: ${shown.join()}`);
  }
});

test('what asks others to confirm who they are asks for a sign-in, and the whole sign-in replaces the session', async () => {
  const guest = await visiting();
  const path = `/webhooks/${await newWebhook(alpha)}`;
  const found = formsIn((await guest.open(path)).text).find(
    ({ method, action }) => method === 'DELETE' && action === path,
  );
  const form = found && [...found.form];
  assert.ok(form);
  const asked = await guest.post(path, form);
  assert.deepEqual([asked.status, asked.location], [303, `/sign-in?return_to=${encodeURIComponent(path)}`]);
  const proof = await guest.post(path, [...form, ['verification_password', PASSWORD]]);
  assert.equal(proof.location, asked.location, 'a password makes it no more');
  assert.equal((await guest.open(path)).status, 200);
  const portal = guest.jar.get('halcyon');
  await guest.signIn(server.ada);
  assert.equal((await guest.open('/account')).status, 200);
  const copy = newBrowser();
  copy.jar.set('halcyon', portal ?? '');
  assert.equal(await isIn(copy), false, 'the former session has ended');
});

test('the page names the account, and a person who is signed in as another one decides', async () => {
  const bob = createBrowser(origin);
  await bob.signIn(server.bob);
  const former = bob.jar.get('halcyon') ?? '';
  const path = await linkFor(adaId);
  const page = await bob.open(path);
  assert.match(page.text, /bob@example\.com/);
  assert.equal((await bob.open('/account')).status, 200, 'nothing has happened yet');
  const elsewhere = await bob.post('/portal', hiddenIn(page, '/portal'), { 'Sec-Fetch-Site': 'cross-site' });
  assert.deepEqual([elsewhere.status, (await bob.open('/account')).status], [403, 200]);
  assert.equal((await bob.post('/portal', hiddenIn(page, '/portal'))).location, overview);
  assert.equal((await bob.open('/account')).location, '/sign-in?return_to=%2Faccount');
  const copy = newBrowser();
  copy.jar.set('halcyon', former);
  assert.equal((await copy.open('/account')).status, 303, 'the session of the other person has ended');
});

test('a person who is signed in keeps that session, and the link is used up', async () => {
  const ada = createBrowser(origin);
  await ada.signIn(server.ada);
  const before = ada.jar.get('halcyon');
  const visits = async () => (await sql`select from portal_session where is_used`).length;
  const [path, visitsBefore] = [await linkFor(adaId), await visits()];
  assert.equal((await follow(ada, path)).location, overview);
  assert.equal(await visits(), visitsBefore, 'no visit is open without a cookie');
  assert.equal(ada.jar.get('halcyon'), before);
  assert.equal((await ada.open('/account')).status, 200);
  assert.equal((await follow(newBrowser(), path)).status, 410);
});

test('no cookie that a browser had before is the session', async () => {
  const browser = newBrowser();
  browser.jar.set('halcyon', 'A'.repeat(43));
  await follow(browser, await linkFor(adaId));
  assert.notEqual(browser.jar.get('halcyon'), 'A'.repeat(43));
  const first = browser.jar.get('halcyon');
  await follow(browser, await linkFor(adaId));
  const copy = newBrowser();
  copy.jar.set('halcyon', first ?? '');
  assert.deepEqual([await isIn(copy), await isIn(browser)], [false, true], 'the next link ends the session before');
});

type Person = Awaited<ReturnType<typeof newMember>>;
const ENDS: readonly (readonly [
  why: string,
  end: (person: Person, browser: Browser) => Promise<unknown>,
  undo?: () => Promise<unknown>,
])[] = [
  ['the membership ends', ({ id }) => call('DELETE', `/stores/${alpha}/members/${id}`)],
  [
    'the person is suspended',
    ({ id }) => sql`update users set date_disabled = now(), disabled_reason = 'x' where id = ${id}`,
  ],
  ['the address is no longer verified', ({ id }) => sql`update users set is_email_verified = false where id = ${id}`],
  [
    'the store is suspended',
    () => sql`update store set suspended_reason = 'x' where id = ${alpha}`,
    () => sql`update store set suspended_reason = null where id = ${alpha}`,
  ],
  [
    'the store requires a second factor',
    () => sql`update store set second_factor = 'required' where id = ${alpha}`,
    () => sql`update store set second_factor = 'optional' where id = ${alpha}`,
  ],
  [
    'the client of the platform is suspended',
    () => sql`update client set suspended_reason = 'x' where client_id = ${server.platform.client_id}`,
    () => sql`update client set suspended_reason = null where client_id = ${server.platform.client_id}`,
  ],
  [
    'the client of the platform is no longer trusted',
    () => sql`update client set trusted = false where client_id = ${server.platform.client_id}`,
    () => sql`update client set trusted = true where client_id = ${server.platform.client_id}`,
  ],
];
for (const [why, end, undo] of ENDS) {
  test(`the session and the unused links end if ${why}`, async () => {
    const person = await newMember();
    const [guest, framed] = [await visiting(person.id), await visiting(person.id, IN_FRAME)];
    const unused = await linkFor(person.id);
    assert.deepEqual([await isIn(guest), await isIn(framed, IN_FRAME)], [true, true]);
    await end(person, guest);
    assert.deepEqual([await isIn(guest), await isIn(framed, IN_FRAME)], [false, false]);
    assert.equal((await follow(newBrowser(), unused)).status, 410);
    await undo?.();
  });
}

test('a new password, the end of other sessions and a sign-out end the session', async () => {
  const person = await newMember();
  const whole = createBrowser(origin);
  await whole.signIn(person.email);
  const first = await visiting(person.id);
  const at = '/account/browsers/end-others';
  await whole.post(at, hiddenIn(await whole.open('/account'), at));
  assert.equal(await isIn(first), false);
  const [second, third] = [await visiting(person.id), await visiting(person.id)];
  const copy = newBrowser();
  copy.jar.set('halcyon', third.jar.get('halcyon') ?? '');
  await third.post('/sign-out', {});
  assert.deepEqual([await isIn(copy), await isIn(second)], [false, true]);
  const form = hiddenIn(await whole.open('/account/password'), '/account/password');
  const changed = await whole.post('/account/password', {
    ...form,
    current: PASSWORD,
    password: 'another long password',
  });
  assert.ok(changed.status < 400, changed.text);
  assert.equal(await isIn(second), false);
});

test('only the platform makes links, for members whom a link may let in', async () => {
  const member = await newMember();
  const make = (user: unknown, storeId = alpha, token?: string) =>
    call('POST', `/stores/${storeId}/links`, { user }, token === undefined ? {} : { token });
  assert.equal((await make(adaId, alpha, await memberToken(alpha))).status, 403);
  assert.equal((await newBrowser().post(`/stores/${alpha}/links`, { user: String(adaId) })).status, 303);
  assert.equal((await call('POST', `/stores/${alpha + 256_000}/links`, { user: adaId })).status, 404);
  for (const user of [bobId, 999_999_999, 0, 'ada@example.com', null]) {
    const refused = await make(user);
    assert.equal(refused.status, 400, String(user));
  }
  assert.equal((await make(adaId, foreign)).status, 400);
  assert.equal((await call('POST', `/stores/${alpha}/links`, { user: adaId, return_to: '/x' })).status, 400);
  const unverified = await newMember();
  await sql`update users set is_email_verified = false where id = ${unverified.id}`;
  assert.deepEqual(codesOf(await make(unverified.id)), ['email_not_verified']);
  await sql`update users set date_disabled = now() where id = ${member.id}`;
  assert.deepEqual(codesOf(await make(member.id)), ['account_disabled']);
  await sql`update users set disabled_reason = 'x' where id = ${member.id}`;
  assert.deepEqual(codesOf(await make(member.id)), ['account_suspended']);
  await sql`update store set second_factor = 'required' where id = ${beta}`;
  assert.deepEqual(codesOf(await make(adaId, beta)), ['second_factor_required']);
  await sql`update store set second_factor = 'optional', suspended_reason = 'x' where id = ${beta}`;
  assert.deepEqual(codesOf(await make(adaId, beta)), ['store_suspended']);
  await sql`update store set suspended_reason = null where id = ${beta}`;
});

test('of unused links of a member the newest five work, and too many are refused', async () => {
  const person = await newMember();
  const links: string[] = [];
  for (let n = 0; n < 6; n += 1) {
    links.push(await linkFor(person.id));
    wait(1);
  }
  const statuses = [];
  for (const link of links) statuses.push((await newBrowser().open(link)).status);
  assert.deepEqual(statuses, [410, 200, 200, 200, 200, 200]);
  for (let n = 6; n < 30; n += 1) await linkFor(person.id);
  const refused = await call('POST', `/stores/${alpha}/links`, { user: person.id });
  assert.deepEqual(
    [refused.status, refused.headers.get('retry-after'), codesOf(refused)],
    [429, '10', ['too_many_requests']],
  );
  await linkFor((await newMember()).id);
});

test('the database has the hash of a link, and not the link', async () => {
  const path = await linkFor(adaId);
  const token = new URL(path, origin).searchParams.get('token') ?? '';
  const guest = newBrowser();
  await follow(guest, path);
  const cookie = guest.jar.get('halcyon') ?? '';
  const rows = await sql<{ row: string }[]>`select portal_session::text as row from portal_session
    union all select audit::text from audit union all select body::text from event`;
  assert.ok(rows.length > 0);
  assert.equal(
    rows.some(({ row }) => row.includes(token) || row.includes(cookie)),
    false,
  );
});

test('the changelog and the account say who made and who used a link', async () => {
  const person = await newMember('member');
  await visiting(person.id);
  const { text } = await call('GET', `/stores/${alpha}/changelogs?resource_id=${person.id}`);
  const { _embedded } = JSON.parse(text) as { _embedded: Record<string, Record<string, unknown>[]> };
  const after = { user_id: person.id, role: 'member' };
  const shown = _embedded['svc:changelogs']
    ?.filter(({ action }) => String(action).startsWith('link_'))
    .map(({ action, actor, user, client, before, after: facts }) => ({
      action,
      actor,
      user,
      client,
      before,
      after: facts,
    }));
  const entry = { before: null, after };
  assert.deepEqual(
    shown?.toSorted((a, b) => String(a.action).localeCompare(String(b.action))),
    [
      { action: 'link_created', actor: 'platform', user: null, client: server.platform.client_id, ...entry },
      { action: 'link_used', actor: 'user', user: person.id, client: null, ...entry },
    ],
  );
  const audit = await sql<{ action: string; client: string }[]>`
    select a.action, c.client_id as client from audit a join client c on c.id = a.client where a.user_id = ${person.id} order by a.id`;
  assert.deepEqual(
    [...audit],
    ['portal_link_created', 'portal_link_used'].map((action) => ({ action, client: server.platform.client_id })),
  );
});

const policyOf = ({ headers }: { headers: Headers }) =>
  /frame-ancestors ([^;]*)/.exec(headers.get('content-security-policy') ?? '')?.[1];
const NONE = "'none'";

test('pages of a link that was opened in a frame are shown in frames of the allowed origins, and no others are', async () => {
  const framed = newBrowser();
  const link = await framed.open(await linkFor(adaId), IN_FRAME);
  assert.deepEqual([policyOf(link), link.headers.get('x-frame-options')], [FRAMING.join(' '), null]);
  const opened = await framed.post('/portal', hiddenIn(link, '/portal'), IN_FRAME);
  const [cookie = ''] = opened.headers.getSetCookie();
  assert.deepEqual(opened.headers.getSetCookie().length, 1);
  assert.match(
    cookie,
    /^halcyon-framed=[A-Za-z0-9_-]{43}; Max-Age=7200; Path=\/; HttpOnly; Secure; Partitioned; SameSite=None$/,
  );
  for (const path of [
    overview,
    `/stores/${alpha}/webhooks`,
    `/stores/${alpha}/search?q=nothing`,
    `/stores/${alpha}/webhooks/nowhere`,
  ]) {
    const page = await framed.open(path, IN_FRAME);
    assert.deepEqual([policyOf(page), page.headers.get('x-frame-options')], [FRAMING.join(' '), null], path);
    assert.doesNotMatch(page.text, /sign-out|\/account/, path);
  }
  for (const path of ['/docs', '/rels/webhooks'])
    assert.equal(policyOf(await framed.open(path, IN_FRAME)), FRAMING.join(' '), path);
  const unframed = await visiting();
  const [lax = ''] = (await follow(newBrowser(), await linkFor(adaId))).headers.getSetCookie();
  assert.match(lax, /^halcyon=[A-Za-z0-9_-]{43}; Max-Age=7200; Path=\/; HttpOnly; SameSite=Lax$/);
  for (const headers of [{}, IN_FRAME]) {
    const page = await unframed.open(overview, headers);
    assert.deepEqual([page.status, policyOf(page), page.headers.get('x-frame-options')], [200, NONE, 'DENY']);
  }
  const top = await newBrowser().open(await linkFor(adaId));
  assert.deepEqual([policyOf(top), top.headers.get('x-frame-options')], [NONE, 'DENY']);
});

test('no page of sign-in, consent, confirmation, account or operator is shown in a frame', async () => {
  const framed = await visiting(adaId, IN_FRAME);
  const whole = createBrowser(origin);
  await whole.signIn(server.ada);
  for (const [name, value] of whole.jar) framed.jar.set(name, value);
  const pages = routeTable(origin).filter(
    ({ path, operations }) => 'GET' in operations && !path.includes(':') && path !== '/portal' && !path.includes('.'),
  );
  assert.ok(pages.length > 20);
  for (const { path, kind } of pages) {
    const query = path === '/authorize' ? `?${new URLSearchParams(server.asking()).toString()}` : '';
    const page = await framed.open(path + query, IN_FRAME);
    if (page.status === 303 || page.headers.get('content-type')?.startsWith('text/html') !== true) continue;
    // Pages of the API are shown to strangers, and belong to no session.
    if (kind === 'resource')
      assert.deepEqual([page.text.includes('/sign-out'), page.text.includes('name="nonce"')], [false, false], path);
    else assert.deepEqual([policyOf(page), page.headers.get('x-frame-options')], [NONE, 'DENY'], path);
  }
});

test('a whole sign-in does not work in a frame, and a form of another site changes nothing there', async () => {
  const whole = newBrowser();
  await whole.signIn(server.ada);
  const asked = await whole.open((await whole.open(overview, IN_FRAME)).location ?? '', IN_FRAME);
  assert.deepEqual([asked.status, asked.location], [303, `/portal?return_to=${encodeURIComponent(overview)}`]);
  const page = await whole.open(asked.location ?? '', IN_FRAME);
  assert.deepEqual([page.status, policyOf(page)], [200, FRAMING.join(' ')]);
  assert.ok(page.text.includes(`target="_blank" href="${overview}"`));
  for (const path of ['//evil.example', '/\\evil.example', 'https://evil.example/'])
    assert.equal((await whole.open(`/portal?return_to=${encodeURIComponent(path)}`, IN_FRAME)).status, 410, path);

  const framed = await visiting(adaId, IN_FRAME);
  // A browser with both cookies, as it has if the framing page is of the same site.
  const both = newBrowser();
  await both.signIn(server.ada);
  both.jar.set('halcyon-framed', framed.jar.get('halcyon-framed') ?? '');
  const ofAccount = async (destination: string) =>
    (await both.open(overview, { 'Sec-Fetch-Dest': destination })).text.includes('/account');
  assert.deepEqual(
    [await ofAccount('document'), await ofAccount('iframe'), await ofAccount('empty')],
    [true, false, false],
  );
  const guest = newBrowser();
  guest.jar.set('halcyon-framed', framed.jar.get('halcyon-framed') ?? '');
  assert.equal(await isIn(guest, { 'Sec-Fetch-Dest': 'document' }), false, 'a window asks for the sign-in');
  const at = `/stores/${alpha}/webhooks`;
  const form = {
    ...hiddenIn(await framed.open(at, IN_FRAME), at),
    name: 'Framed',
    format: 'partner_automation',
    is_active: '0',
  };
  const webhooks = async () => (await sql`select from webhook where name = 'Framed'`).length;
  for (const headers of [{ 'Sec-Fetch-Site': 'cross-site' }, { 'Sec-Fetch-Site': 'same-site' }])
    assert.equal((await framed.post(at, form, { ...IN_FRAME, ...headers })).status, 403);
  assert.equal((await framed.post(at, { ...form, nonce: 'x' }, IN_FRAME)).status, 403);
  assert.equal(await webhooks(), 0);
  const made = await framed.post(at, { ...form, 'events[]': 'transaction/created' }, IN_FRAME);
  assert.deepEqual([made.status, await webhooks()], [303, 1], made.text);
});

test('without the setting nothing is shown in a frame', async () => {
  const strict = await startAuthorizationServer({}, { isResolvable: true });
  const { text } = await call('POST', `/stores/${strict.alpha}/links`, { user: strict.adaId }, { at: strict });
  const { url } = JSON.parse(text) as { url: string };
  const browser = newBrowser(strict.origin);
  const page = await browser.open(url.slice(strict.origin.length), IN_FRAME);
  assert.deepEqual([policyOf(page), page.headers.get('x-frame-options')], [NONE, 'DENY']);
  const opened = await browser.post('/portal', hiddenIn(page, '/portal'), IN_FRAME);
  assert.match(opened.headers.getSetCookie().join(), /^halcyon=[^;]+; .*SameSite=Lax$/);
  const shown = await browser.open(`/stores/${strict.alpha}/overview`, IN_FRAME);
  assert.deepEqual([shown.status, policyOf(shown)], [200, NONE]);
});

test('if the operator requires a second factor, no link is made, and those of before do not work', async () => {
  const before = await startAuthorizationServer({}, { isResolvable: true });
  const make = (at: Server) => call('POST', `/stores/${before.alpha}/links`, { user: before.adaId }, { at });
  const path = async () => (JSON.parse((await make(before)).text) as { url: string }).url.slice(before.origin.length);
  const [link, guest] = [await path(), newBrowser(before.origin)];
  await follow(guest, await path());
  const overviewOf = (browser: Browser) => browser.open(`/stores/${before.alpha}/overview`);
  assert.equal((await overviewOf(guest)).status, 200);
  const strict = newBrowser(await before.startSecond(undefined, { REQUIRE_SECOND_FACTOR: '1' }));
  for (const [name, value] of guest.jar) strict.jar.set(name, value);
  assert.deepEqual([(await overviewOf(strict)).status, (await follow(strict, link)).status], [303, 410]);
});

test('frames need exact origins, and https', async () => {
  const read = (origins: string, auth = 'https://hooks.example.com') =>
    readConfig({ PORTAL_FRAME_ORIGINS: origins, AUTH_URL: auth }, '/').accounts.portalFrameOrigins;
  assert.deepEqual(read('https://a.example, https://b.example:8443'), ['https://a.example', 'https://b.example:8443']);
  assert.deepEqual(read('http://localhost:3000', 'http://127.0.0.1:8080'), ['http://localhost:3000']);
  for (const wrong of [
    '*',
    'https://*.a.example',
    'https://a.example/',
    'http://a.example',
    "'self'",
    'a.example',
    'https://a.example/x',
    'https://A.example',
    'null',
    'data:',
  ])
    assert.throws(() => read(wrong), /PORTAL_FRAME_ORIGINS has/, wrong);
  assert.throws(() => read('https://a.example', 'http://hooks.example.com'), /needs https in AUTH_URL/);
  assert.throws(() => read(Array.from({ length: 21 }, (_, n) => `https://a${n}.example`).join()), /more than 20/);
});
