/** The resources of the API as pages for a signed-in person, with forms, as a browser requests them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSealer } from '#db/seal.ts';
import { createBrowser, startAuthorizationServer } from '../security/oauth-server.ts';
import { createFiller, filled, formsIn, HTML } from '../setup/form-filler.ts';
import { faultsIn } from '../setup/html-validator.ts';

const SECRET_KEY = Buffer.alloc(32, 9);
const server = await startAuthorizationServer({}, { secretKeys: [SECRET_KEY] });
const { browser, alpha } = server;
const WEBHOOKS = `/stores/${alpha}/webhooks`;

const { show, formFor, send } = createFiller(server.origin, browser);

async function create(changes: Record<string, string> = {}): Promise<string> {
  const form = filled(await formFor(WEBHOOKS, 'POST'), { name: 'Orders', format: 'json', ...changes });
  const response = await send(WEBHOOKS, form);
  assert.equal(response.status, 303, await response.text());
  return (response.headers.get('location') ?? '').split('?', 1)[0] ?? '';
}

async function rowOf(path: string) {
  const [row] = await server.sql<
    { name: string; format: string; revision: number; events: string[]; resource: string | null; key: Buffer }[]
  >`
    select name, format, revision, events, event_resource as resource, encryption_key as key
    from webhook where id = ${Number(path.split('/').at(-1))}`;
  return row;
}

test('a visitor without a session is redirected to sign in, and returns after it', async () => {
  const stranger = createBrowser(server.origin);
  const sent = await stranger.open(`${WEBHOOKS}?limit=5`);
  assert.equal(sent.status, 400, 'a program without a version header gets an error about it');
  const response = await fetch(`${server.origin}${WEBHOOKS}?limit=5`, { redirect: 'manual', headers: HTML });
  assert.equal(response.status, 303);
  const back = new URLSearchParams({ return_to: `${WEBHOOKS}?limit=5` }).toString();
  assert.equal(response.headers.get('location'), `/sign-in?${back}`);
  const signedIn = await stranger.post('/sign-in', {
    email: server.bob,
    password: 'correct horse battery',
    return_to: '/stores?limit=5',
  });
  assert.equal(signedIn.location, '/stores?limit=5');
});

test('home is public: it says what this is, and leads to the sign-in, the documentation and the API', async () => {
  const response = await fetch(server.origin, { headers: HTML });
  assert.equal(response.status, 200);
  const text = await response.text();
  assert.match(text, /href="\/sign-in"/);
  assert.match(text, /href="\/docs"/);
  assert.match(text, /curl -H 'SERVICE-API-VERSION: 1' http:\/\/[\w.:]+\/<\/pre>/);
  const signedIn = await (await show('/')).text();
  assert.doesNotMatch(signedIn, /Store owners/, 'who is signed in sees the links of the API');
  const program = await fetch(server.origin, {
    headers: { Accept: 'application/hal+json', 'SERVICE-API-VERSION': '1' },
  });
  assert.equal(program.headers.get('content-type'), 'application/hal+json');
});

test('a page cannot be framed or read by other sites, and needs no version header', async () => {
  const { status, headers } = await show(WEBHOOKS);
  assert.equal(status, 200);
  assert.equal(headers.get('content-type'), 'text/html; charset=utf-8');
  assert.equal(headers.get('access-control-allow-origin'), null);
  assert.match(headers.get('content-security-policy') ?? '', /default-src 'none'.*frame-ancestors 'none'/);
  assert.equal(headers.get('vary'), 'Accept, Accept-Encoding, Authorization, Cookie, Sec-Fetch-Dest');
  assert.equal(headers.get('content-encoding'), null, 'its length would reveal its nonces');
});

test('a page with a token instead of a session has no forms', async () => {
  const { body } = await server.redeem(await server.newCode());
  const response = await fetch(server.origin + WEBHOOKS, {
    headers: { ...HTML, Authorization: `Bearer ${String(body['access_token'])}` },
  });
  assert.equal(response.status, 200);
  assert.doesNotMatch(await response.text(), /name="nonce"/);
});

test('a form creates a webhook, with a generated key', async () => {
  const form = await formFor(WEBHOOKS, 'POST');
  assert.match(form.get('encryption_key') ?? '', /^whsec_[A-Za-z0-9+/]{32}$/);
  const response = await send(WEBHOOKS, filled(form, { name: 'Made by hand', format: 'json' }));
  assert.equal(response.status, 303);
  const location = response.headers.get('location') ?? '';
  assert.match(location, /^\/webhooks\/\d+\?done=created$/);
  const page = await (await show(location)).text();
  assert.match(page, /<h1>Made by hand<\/h1>/);
  assert.match(page, /Created\./);
  assert.ok(page.includes(form.get('encryption_key') ?? '-'), 'its owner sees the key');
});

test('a form sends the changed fields and no others', async () => {
  const path = await create({ event_resource: 'transaction' });
  const before = await rowOf(path);
  const form = await formFor(path, 'PATCH');
  const response = await send(path, filled(form, { name: 'Renamed' }));
  assert.equal(response.headers.get('location'), `${path}?done=changed`);
  const after = await rowOf(path);
  assert.deepEqual({ ...after, name: '', revision: 0 }, { ...before, name: '', revision: 0 });
  assert.deepEqual([after?.name, after?.revision], ['Renamed', 2]);
});

test('a form without changes changes nothing', async () => {
  const path = await create();
  const form = await formFor(path, 'PATCH');
  const response = await send(path, form);
  assert.equal(response.headers.get('location'), `${path}?done=unchanged`);
  assert.equal((await rowOf(path))?.revision, 1);
});

test('a rejected form comes back with all input and its errors', async () => {
  const form = await formFor(WEBHOOKS, 'POST');
  const response = await send(
    WEBHOOKS,
    filled(form, { name: 'Typed "long" & well', format: 'json', url: 'ftp://nowhere' }),
  );
  assert.equal(response.status, 400);
  const page = await response.text();
  assert.ok(page.includes('value="Typed &quot;long&quot; &amp; well"'));
  assert.ok(page.includes('value="ftp://nowhere"'));
  assert.match(page, /URL must be [^<]*https/);
  assert.ok(page.includes(form.get('encryption_key') ?? '-'), 'the generated key stays');
});

test('an owner is not asked for what the platform alone decides, and a form that has it keeps its input', async () => {
  const path = `/stores/${alpha}`;
  const form = await formFor(path, 'PATCH');
  assert.deepEqual([form.has('name'), form.has('subscription_events')], [true, false]);
  const refused = await send(path, filled(form, { name: 'Typed', subscription_events: 'published' }));
  assert.equal(refused.status, 403);
  const page = await refused.text();
  assert.ok(page.includes('value="Typed"'));
  assert.match(page, /Subscription events [^<]*platform/);
});

test('a form that is sent twice creates one resource', async () => {
  const form = filled(await formFor(WEBHOOKS, 'POST'), { name: 'Twice', format: 'json' });
  const sent = await Promise.all([send(WEBHOOKS, form), send(WEBHOOKS, form)]);
  const [first, second] = sent.map(({ headers }) => headers.get('location'));
  assert.match(first ?? '', /^\/webhooks\/\d+\?done=created$/);
  assert.equal(second, first);
});

test('a session changes resources only by a form', async () => {
  const path = await create();
  for (const method of ['PATCH', 'PUT', 'DELETE']) {
    const response = await fetch(server.origin + path, {
      method,
      headers: {
        ...HTML,
        Cookie: browser.cookie() ?? '',
        'Sec-Fetch-Site': 'same-origin',
        'Content-Type': 'application/json',
      },
      ...(method !== 'DELETE' && { body: JSON.stringify({ name: 'x', format: 'partner_automation' }) }),
    });
    assert.equal(response.status, 401, method);
    await response.arrayBuffer();
  }
  assert.equal((await rowOf(path))?.revision, 1);
});

test('pages are not shown again after signing out', async () => {
  assert.equal((await show(WEBHOOKS)).headers.get('cache-control'), 'no-store');
});

test('a form of a resource that was changed meanwhile is rejected with a message', async () => {
  const path = await create();
  const form = await formFor(path, 'PATCH');
  await send(path, filled(form, { name: 'First' }));
  const response = await send(path, filled(form, { name: 'Second' }));
  assert.equal(response.status, 412);
  const page = await response.text();
  assert.match(page, /This was changed since you opened the page/);
  assert.equal((await rowOf(path))?.name, 'First');
});

/** Returns the differences that a page shows: property, version of the person, stored version. */
const differencesIn = (page: string): string[][] =>
  [...page.matchAll(/<tr>\s*<th scope="row">([^]*?)<\/tr>/g)].map(([, row = '']) =>
    row.split(/<\/t[hd]>/, 3).map((cell) => cell.replaceAll(/<[^>]+>/g, '').trim()),
  );

test('a conflict of two tabs shows the properties that differ in both versions, and the person keeps one', async () => {
  const path = await create({ url: 'http://1.1.1.1/a', encryption_key: 'whsec_c3RvcmVkIGtleSBvZiBhIHN0b3Jl' });
  const [first, second] = [await formFor(path, 'PATCH'), await formFor(path, 'PATCH')];
  const saved = await send(path, filled(first, { url: 'http://1.1.1.1/first', rate_per_second: '5' }));
  assert.equal(saved.status, 303);
  const typed = filled(second, { name: '<b>Second</b>', is_active: '0', encryption_key: 'typed-in-the-second-tab' });
  const response = await send(path, typed);
  assert.equal(response.status, 412);
  const page = await response.text();
  assert.deepEqual(await faultsIn(page), []);
  assert.deepEqual(differencesIn(page), [
    ['Name', '&lt;b&gt;Second&lt;/b&gt;', 'Orders'],
    ['URL', 'http://1.1.1.1/a', 'http://1.1.1.1/first'],
    ['Encryption key', 'Not shown', 'Not shown'],
    ['Active', 'No', 'Yes'],
    ['Rate per second', 'None', '5'],
  ]);
  assert.doesNotMatch(/role="alert"[^]*<\/form>/.exec(page)?.[0] ?? '', /typed-in-the-second-tab|c3RvcmVkIGtleSBv/);
  assert.match(page, new RegExp(`<a class="button quiet" href="${path}">Keep the stored version`));
  const mine = formsIn(page).find(({ method }) => method === 'PATCH')?.form ?? new URLSearchParams();
  // A third tab saves before the person has chosen.
  await send(path, filled(await formFor(path, 'PATCH'), { name: 'Third' }));
  const again = await send(path, mine);
  assert.equal(again.status, 412, 'only the version that was shown is replaced');
  const shown = await again.text();
  assert.deepEqual(differencesIn(shown)[0], ['Name', '&lt;b&gt;Second&lt;/b&gt;', 'Third']);
  const kept = formsIn(shown).find(({ method }) => method === 'PATCH')?.form ?? new URLSearchParams();
  assert.equal((await send(path, kept)).status, 303);
  assert.equal((await rowOf(path))?.name, '<b>Second</b>');
});

test('a form that was rejected for its values still does not undo a change of another person', async () => {
  const path = await create();
  const form = await formFor(path, 'PATCH');
  await send(path, filled(form, { name: 'First' }));
  const page = await (await send(path, filled(form, { name: 'Second', rate_per_second: '0' }))).text();
  const again = formsIn(page).find(({ method }) => method === 'PATCH');
  assert.equal((await send(path, filled(again?.form ?? form, { rate_per_second: '' }))).status, 412);
  assert.equal((await rowOf(path))?.name, 'First');
});

test('deleting leads back to the list', async () => {
  const path = await create();
  const response = await send(path, await formFor(path, 'DELETE'));
  assert.equal(response.status, 303);
  assert.equal(response.headers.get('location'), `${WEBHOOKS}?done=deleted`);
  assert.equal(await rowOf(path), undefined);
});

test('a second click on Delete leads home, with a sentence that it no longer exists', async () => {
  const path = await create();
  const form = await formFor(path, 'DELETE');
  await send(path, form);
  const again = await send(path, form);
  assert.equal(again.status, 303);
  assert.match(again.headers.get('location') ?? '', /^\/account\?done=gone$/);
  assert.match(await (await show(again.headers.get('location') ?? '')).text(), /This no longer exists\./);
  const changed = await send(path, filled(form, { _method: 'PATCH' }));
  assert.notEqual(changed.status, 303, 'only a deletion can be repeated');
});

const refused: [what: string, changes: Record<string, string>, headers: Record<string, string>][] = [
  ['without its nonce', { nonce: '' }, {}],
  ['with the nonce of another action', { _method: 'PATCH' }, {}],
  ['from another site', {}, { 'Sec-Fetch-Site': 'cross-site' }],
  ['from a neighbouring host', {}, { 'Sec-Fetch-Site': 'same-site' }],
];
for (const [what, changes, headers] of refused) {
  test(`a form ${what} is rejected`, async () => {
    const path = await create();
    const response = await send(path, filled(await formFor(path, 'DELETE'), changes), headers);
    assert.equal(response.status, 403);
    await response.arrayBuffer();
    assert.ok(await rowOf(path));
  });
}

test('a method override in a POST works for pages alone', async () => {
  const path = await create();
  const { body } = await server.redeem(await server.newCode());
  for (const Accept of ['application/hal+json', 'text/html']) {
    const response = await fetch(server.origin + path, {
      method: 'POST',
      headers: { Accept, 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${String(body['access_token'])}` },
      body: new URLSearchParams({ _method: 'DELETE' }),
    });
    assert.equal(response.status, 405, await response.text());
    assert.equal(response.headers.get('allow'), 'GET, PATCH, PUT, DELETE, HEAD, OPTIONS');
  }
  assert.ok(await rowOf(path));
});

test('a member who is no owner sees no key', async () => {
  const members = `/stores/${server.beta}/webhooks`;
  const form = filled(await formFor(members, 'POST'), { name: 'Of Beta', format: 'json' });
  const response = await send(members, form);
  const page = await (await show(response.headers.get('location') ?? '')).text();
  assert.ok(!page.includes(form.get('encryption_key') ?? '-'));
});

test('a form of a member who is no owner changes one header, and neither shows nor loses the values of the others', async () => {
  const members = `/stores/${server.beta}/webhooks`;
  const given = { name: 'Of Beta', format: 'json', url: 'https://example.com/?token=of-the-query' };
  const headers = 'X-Api-Key: of-the-header\nX-Team: ops';
  const made = await send(members, filled(await formFor(members, 'POST'), { ...given, headers }));
  const path = (made.headers.get('location') ?? '').split('?', 1)[0] ?? '';
  const page = await (await show(path)).text();
  assert.doesNotMatch(page, /of-the-query|of-the-header/);
  assert.match(page, /https:\/\/example\.com\/\?token=\*\*\*/);
  const form = await formFor(path, 'PATCH');
  const shown = form.get('headers') ?? '';
  assert.deepEqual(shown.trim().split('\r\n').toSorted(), ['X-Api-Key:', 'X-Team:']);
  const changed = await send(path, filled(form, { headers: shown.replace('X-Team:', 'X-Team: returns') }));
  assert.equal(changed.status, 303, await changed.text());
  const [row] = await server.sql<{ id: number; sealed: Buffer }[]>`
    select id, request_secrets as sealed from webhook where id = ${Number(path.split('/').at(-1))}`;
  const { open } = createSealer(SECRET_KEY);
  const secrets = JSON.parse(open(row?.sealed ?? Buffer.alloc(0), `webhook:${row?.id}`)) as object;
  assert.deepEqual(secrets, { url: given.url, headers: { 'X-Api-Key': 'of-the-header', 'X-Team': 'returns' } });
});

test('a browser finds the icon at its default address', async () => {
  const response = await fetch(`${server.origin}/favicon.ico`, { headers: { Accept: 'image/avif,image/*,*/*;q=0.8' } });
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('content-type'), 'image/svg+xml');
  assert.match(await response.text(), /^<svg /);
});

/** Returns the hidden fields of the form for this address. */
async function actionForm(page: string, path: string): Promise<URLSearchParams> {
  const text = await (await show(page)).text();
  const [, inside = ''] = new RegExp(`<form method="post" action="${path}"[^>]*>([^]*?)</form>`).exec(text) ?? [];
  const hidden = [...inside.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)];
  return new URLSearchParams(hidden.map(([, name = '', value = '']) => [name, unescape(value)]));
}

test('an action below a resource has its form on the page, and ends there or shows what prevents it', async () => {
  const path = await create();
  const rotate = `${path}/rotate_key`;
  const form = await actionForm(path, rotate);
  for (const twice of [form, form]) {
    const response = await send(rotate, twice);
    assert.deepEqual([response.status, response.headers.get('location')], [303, `${path}?done=rotated`]);
  }
  const page = await (await show(`${path}?done=rotated`)).text();
  assert.match(page, /next key, .*<dt>Next encryption key</s);
  assert.doesNotMatch(page, /<a href="[^"]*\/(?:rotate_key|test)"/, 'such a link would lead to an address without GET');
  assert.match(page, /class="alert mild"[^]*?name="finish" value="1"[^]*?Finish the rotation/);
  assert.doesNotMatch(page, /id="rotate_key"|<select[^>]*name="finish"/, 'there is no form for a third key');
  const again = await send(rotate, filled(await actionForm(path, rotate), { finish: '', encryption_key: 'mine' }));
  const conflict = await again.text();
  assert.equal(again.status, 409);
  assert.match(
    conflict,
    /finish[^]*<h1>Orders[^]*<section class="panel open" id="rotate_key"[^>]*>\s*<h2[^>]*>Rotate the key/,
  );
  const stale = filled(await actionForm(path, rotate), { _version: '1', finish: '1', _key: 'another' });
  const late = await send(rotate, stale);
  assert.equal(late.status, 412);
  assert.match(await late.text(), /This was changed since you opened the page/);
  const tried = await send(`${path}/test`, await actionForm(path, `${path}/test`));
  assert.match(await tried.text(), /The webhook has no url/);
});
