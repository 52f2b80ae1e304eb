/** A form that is sent after the session has ended is kept through the sign-in, without secrets, and is sent by the person alone. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { labelOf } from '#hypermedia/html/words.ts';
import { createSealer } from '#db/seal.ts';
import { filled, formsIn, HTML } from '../setup/form-filler.ts';
import { createBrowser, PASSWORD, startAuthorizationServer, type Browser, type Page } from './oauth-server.ts';

const SECRET_KEY = Buffer.alloc(32, 9);
const server = await startAuthorizationServer({}, { secretKeys: [SECRET_KEY] });
const { alpha, ada } = server;
const LIST = `/stores/${alpha}/webhooks`;
const COOKIE = 'halcyon-form';
const SESSION = 'halcyon';

const formAt = ({ text }: Page, action: string, method = 'POST'): URLSearchParams => {
  const found = formsIn(text).find((one) => one.action === action && one.method === method);
  assert.ok(found, `no form for ${method} ${action}`);
  return found.form;
};
const post = (browser: Browser, path: string, form: URLSearchParams, headers = {}) =>
  browser.post(path, [...form], { ...HTML, ...headers });
const signedIn = async (email = ada): Promise<Browser> => {
  const browser = createBrowser(server.origin);
  await browser.signIn(email);
  return browser;
};
const webhooks = async (): Promise<string[]> => {
  const rows = await server.sql<{ name: string }[]>`select name from webhook where store_id = ${alpha} order by id`;
  return rows.map(({ name }) => name);
};
const SECRETS = {
  encryption_key: 'typed-key-canary',
  url: 'http://1.1.1.1/?token=query-canary',
  headers: 'X-Key: header-canary',
};

/** Sends the form of a new webhook after the session has ended; returns the response, and the browser with its cookies. */
async function sendSignedOut(changes: Record<string, string>, headers = {}): Promise<{ browser: Browser; sent: Page }> {
  const browser = await signedIn();
  const form = filled(formAt(await browser.open(LIST, HTML), LIST), { format: 'json', ...changes });
  browser.jar.delete(SESSION);
  return { browser, sent: await post(browser, LIST, form, headers) };
}
const signInAgain = (browser: Browser, { location }: Page, email = ada) =>
  browser.post('/sign-in', {
    email,
    password: PASSWORD,
    return_to: new URL(location ?? '', server.origin).searchParams.get('return_to') ?? '',
  });

test('what was entered is there after the sign-in, once, without secrets, and nothing is sent before the person sends it', async () => {
  const before = await webhooks();
  const { browser, sent } = await sendSignedOut({ name: 'Typed <long>', rate_per_second: '7', ...SECRETS });
  assert.deepEqual(
    [sent.status, sent.location],
    [303, `/sign-in?${new URLSearchParams({ return_to: LIST }).toString()}`],
  );
  assert.match(sent.headers.get('set-cookie') ?? '', /Max-Age=600; Path=\/; HttpOnly; SameSite=Lax/);
  const opened = createSealer(SECRET_KEY).open(Buffer.from(browser.jar.get(COOKIE) ?? '', 'base64url'), 'kept-form');
  assert.match(opened, /Typed <long>/);
  assert.doesNotMatch(opened, /canary|nonce|"_/);
  const { location } = await signInAgain(browser, sent);
  const shown = await browser.open(location ?? '', HTML);
  const form = formAt(shown, LIST);
  assert.deepEqual([form.get('name'), form.get('rate_per_second'), form.get('format')], ['Typed <long>', '7', 'json']);
  assert.match(form.get('encryption_key') ?? '', /^whsec_/, 'a new key is offered');
  assert.doesNotMatch(shown.text, /canary/);
  for (const name of Object.keys(SECRETS))
    assert.match(shown.text, new RegExp(`${labelOf(name)} may be a secret`), name);
  assert.match(shown.text, /data-unsaved/);
  assert.deepEqual(await webhooks(), before);
  assert.equal(browser.jar.has(COOKIE), false);
  assert.notEqual(formAt(await browser.open(LIST, HTML), LIST).get('name'), 'Typed <long>');
  assert.equal((await post(browser, LIST, form)).status, 303);
  assert.deepEqual(await webhooks(), [...before, 'Typed <long>']);
});

test('a form of an action returns to its page, with the version that it was opened with', async () => {
  const browser = await signedIn();
  const made = await post(
    browser,
    LIST,
    filled(formAt(await browser.open(LIST, HTML), LIST), { name: 'A', format: 'json' }),
  );
  const path = (made.location ?? '').split('?', 1)[0] ?? '';
  const page = await browser.open(path, HTML);
  const change = filled(formAt(page, path, 'PATCH'), { name: 'B' });
  const rotate = filled(formAt(page, `${path}/rotate_key`), { finish: '1' });
  await post(browser, path, filled(formAt(page, path, 'PATCH'), { name: 'C' }));
  for (const [target, form, field] of [
    [path, change, 'name'],
    [`${path}/rotate_key`, rotate, 'finish'],
  ] as const) {
    browser.jar.delete(SESSION);
    const sent = await post(browser, target, form);
    const { location } = await signInAgain(browser, sent);
    assert.equal(location, path);
    const again = formAt(await browser.open(path, HTML), target, form.get('_method') ?? 'POST');
    assert.deepEqual([again.get(field), again.get('_version')], [form.get(field), '1']);
    assert.equal((await post(browser, target, again)).status, 412);
  }
});

test('a form is not kept from another site, for longer than ten minutes, for another page, or if it is long', async () => {
  const strange = await sendSignedOut({ name: 'Strange' }, { 'Sec-Fetch-Site': 'cross-site' });
  assert.deepEqual([strange.sent.status, strange.browser.jar.has(COOKIE)], [403, false]);
  const long = await sendSignedOut({ name: 'Long', query: `fields=${'x'.repeat(4_000)}` });
  assert.deepEqual([long.sent.status, long.browser.jar.has(COOKIE)], [303, false]);
  const huge = await sendSignedOut({ name: 'x'.repeat(20_000) });
  assert.deepEqual([huge.sent.status, huge.browser.jar.has(COOKIE)], [303, false]);

  const { browser, sent } = await sendSignedOut({ name: 'Late' });
  const nameOf = async (path = LIST) => (await browser.open(path, HTML)).text.includes('value="Late"');
  assert.equal(await nameOf(), false, 'a person who is not signed in sees nothing of it');
  await signInAgain(browser, sent);
  assert.equal(await nameOf(`/stores/${alpha}`), false);
  assert.equal(browser.jar.has(COOKIE), true, 'another page does not use it up');
  const kept = browser.jar.get(COOKIE) ?? '';
  browser.jar.set(COOKIE, `${kept.slice(0, -2)}AA`);
  assert.equal(await nameOf(), false, 'a changed cookie');
  browser.jar.set(COOKIE, kept);
  server.wait(600_000);
  assert.equal(await nameOf(), false, 'too late');
});

test('a form of an earlier session comes back with its input', async () => {
  const browser = await signedIn();
  const form = filled(formAt(await browser.open(LIST, HTML), LIST), { name: 'Earlier', format: 'json', ...SECRETS });
  await browser.signIn(ada);
  const before = await webhooks();
  const refused = await post(browser, LIST, form);
  assert.equal(refused.status, 403);
  assert.deepEqual(await webhooks(), before);
  assert.doesNotMatch(refused.text, /typed-key-canary/);
  const again = filled(formAt(refused, LIST), { url: '', headers: '', encryption_key: 'another' });
  assert.equal(again.get('name'), 'Earlier');
  assert.equal((await post(browser, LIST, again)).status, 303);
  assert.deepEqual(await webhooks(), [...before, 'Earlier']);
});
