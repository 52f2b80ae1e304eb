/** Consent in a real browser, from a client's page on another site and back to it. */
import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import type { Page } from 'playwright-core';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { PASSWORD, startAuthorizationServer } from '../security/oauth-server.ts';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { until } from '../setup/until.ts';
import { startSite } from './client-site.ts';

const ARRIVAL_MS = 5_000;

const server = await startAuthorizationServer({}, { isResolvable: true });
const { origin, sql, ada } = server;
const third = await startSite(() => ({ html: '<h1>Welcome</h1>' }));
const site = await startSite(({ pathname, searchParams }) => {
  if (pathname === '/onward') return { location: `http://127.0.0.1:${third.port}/welcome` };
  // The content of a client's page is given in its address.
  return { html: searchParams.get('html') ?? '<h1>The client</h1>' };
});
const browser = 'skip' in needsChromium ? undefined : await openBrowser();
after(async () => {
  await browser?.close();
  site.close();
  third.close();
});

const details = { trusted: false, now: new Date('2026-07-01T10:00:00.000Z') };
const redirectUris = [`${site.origin}/cb`, `${site.origin}/onward`];
const first = await createClient(sql, { ...details, name: 'First', redirectUris });
const second = await createClient(sql, { ...details, name: 'Second', redirectUris: [`${site.origin}/second`] });

function addressOf(changes: Record<string, string> = {}): string {
  const asked = { client_id: first.client_id, redirect_uri: `${site.origin}/cb`, ...changes };
  return `${origin}/authorize?${new URLSearchParams(server.asking(asked)).toString()}`;
}

/** Returns the address of a client's page with this content. */
const clientPage = (html: string): string => `${site.origin}/?${new URLSearchParams({ html }).toString()}`;
const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;');
const linkTo = (address: string): string => clientPage(`<a href="${escaped(address)}">Connect</a>`);

async function openPage(t: TestContext): Promise<Page> {
  assert.ok(browser !== undefined);
  const context = await browser.newContext();
  t.after(() => context.close());
  return context.newPage();
}

async function signIn(page: Page): Promise<void> {
  await page.getByLabel('E-mail').fill(ada);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

/** Opens the consent page as a user who had to sign in for it. */
async function openConsent(t: TestContext, address = addressOf()): Promise<Page> {
  const page = await openPage(t);
  await page.goto(address);
  await signIn(page);
  await page.getByRole('radio', { name: 'Alpha' }).check();
  return page;
}

const press = (page: Page, name: 'Allow' | 'Deny'): Promise<void> => page.getByRole('button', { name }).click();

/** Returns the address that the browser reached; an assertion and no time-out if it dropped the redirect. */
async function arrival(page: Page, start: string): Promise<URLSearchParams> {
  // `waitForURL` fails at once if a second click aborts the navigation of the first one.
  const arrived = await until(
    async () => page.url(),
    (url) => url.startsWith(start),
    ARRIVAL_MS,
  ).then(
    () => true,
    () => false,
  );
  assert.ok(arrived, `the browser came to ${start} and is at ${page.url()}`);
  await page.waitForLoadState();
  return new URL(page.url()).searchParams;
}

async function countGrants(): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*) from access_grant`;
  return row?.count ?? Number.NaN;
}

const redeem = (code: string | null) => server.redeem(code ?? '', { redirect_uri: `${site.origin}/cb`, ...first });

test('from the client, through sign-in and consent, back to the client', needsChromium, async (t) => {
  const page = await openPage(t);
  const state = 'a+b &error=x \uFFFD 🐎';
  await page.goto(linkTo(addressOf({ state })));
  await page.getByRole('link', { name: 'Connect' }).click();
  await signIn(page);
  await page.getByRole('radio', { name: 'Alpha' }).check();
  await press(page, 'Allow');
  const read = await arrival(page, `${site.origin}/cb?`);
  assert.deepEqual(read.getAll('state'), [state]);
  assert.equal(read.get('iss'), origin);
  assert.equal((await redeem(read.get('code'))).status, 200);
});

test('a client whose callback redirects to a third origin is reached', needsChromium, async (t) => {
  const page = await openConsent(t, addressOf({ redirect_uri: `${site.origin}/onward` }));
  await press(page, 'Allow');
  await arrival(page, `http://127.0.0.1:${third.port}/welcome`);
  assert.ok(site.visits.some(({ pathname, searchParams }) => pathname === '/onward' && searchParams.has('code')));
});

test('a denial returns to the client with access_denied', needsChromium, async (t) => {
  const page = await openConsent(t);
  const before = await countGrants();
  await press(page, 'Deny');
  assert.equal((await arrival(page, `${site.origin}/cb?`)).get('error'), 'access_denied');
  assert.equal(await countGrants(), before);
});

test('after sign-in the error of a request reaches the client', needsChromium, async (t) => {
  const page = await openPage(t);
  await page.goto(addressOf({ scope: 'unknown' }));
  await signIn(page);
  assert.equal((await arrival(page, `${site.origin}/cb?`)).get('error'), 'invalid_scope');
});

test('two tabs with two clients do not affect each other', needsChromium, async (t) => {
  const one = await openConsent(t, addressOf({ state: 'one' }));
  const two = await one.context().newPage();
  const redirect_uri = `${site.origin}/second`;
  await two.goto(addressOf({ client_id: second.client_id, redirect_uri, state: 'two' }));
  await two.getByRole('radio', { name: 'Beta' }).check();
  await press(two, 'Allow');
  await press(one, 'Allow');
  assert.equal((await arrival(two, redirect_uri)).get('state'), 'two');
  assert.equal((await arrival(one, `${site.origin}/cb?`)).get('state'), 'one');
});

test('a double click on Allow leads to the client with a code that works', needsChromium, async (t) => {
  const page = await openConsent(t);
  const before = await countGrants();
  await page.getByRole('button', { name: 'Allow' }).dblclick();
  const read = await arrival(page, `${site.origin}/cb?`);
  assert.equal((await redeem(read.get('code'))).status, 200);
  const made = (await countGrants()) - before;
  assert.ok(made === 1 || made === 2, `${made} grants`);
});

test('the page can be used again after going back from an approval', needsChromium, async (t) => {
  const page = await openConsent(t);
  await press(page, 'Allow');
  const once = (await arrival(page, `${site.origin}/cb?`)).get('code');
  await page.goBack();
  await page.getByRole('radio', { name: 'Beta' }).check();
  await press(page, 'Allow');
  const again = (await arrival(page, `${site.origin}/cb?`)).get('code');
  assert.notEqual(again, once);
  assert.equal((await redeem(again)).status, 200);
});

test('no page of another origin can frame the consent page', needsChromium, async (t) => {
  const page = await openConsent(t);
  await page.goto(clientPage(`<iframe src="${escaped(addressOf())}"></iframe>`));
  // A frame has no address until a document was loaded into it.
  const address = await until(
    async () => page.frames()[1]?.url() ?? '',
    (url) => url !== '',
  );
  assert.equal(address, 'chrome-error://chromewebdata/');
});

/** Sends the exact form of the consent page, nonce included, from a page on `host`. */
async function postFrom(t: TestContext, host: string): Promise<{ status: number | undefined; grants: number }> {
  const page = await openConsent(t);
  const nonce = await page.locator('input[name=nonce]').inputValue();
  const fields = { nonce, decision: 'allow', store: String(server.alpha) };
  const inputs = Object.entries(fields).map(([name, value]) => `<input name="${name}" value="${value}">`);
  const html = `<form method="post" action="${escaped(addressOf())}">${inputs.join('')}<button>Win</button></form>`;
  const before = await countGrants();
  await page.goto(clientPage(html).replace('localhost', host));
  const answered = page.waitForResponse((response) => response.url().startsWith(`${origin}/authorize`));
  await page.getByRole('button', { name: 'Win' }).click();
  return { status: (await answered).status(), grants: (await countGrants()) - before };
}

test('a form on another site grants nothing', needsChromium, async (t) => {
  assert.deepEqual(await postFrom(t, 'localhost'), { status: 403, grants: 0 });
});

test('a form on another port of the same host, which has the cookie, grants nothing', needsChromium, async (t) => {
  assert.deepEqual(await postFrom(t, '127.0.0.1'), { status: 403, grants: 0 });
});

test(
  'a user who was signed out meanwhile signs in, is asked again and reaches the client',
  needsChromium,
  async (t) => {
    const page = await openConsent(t, addressOf({ state: 'still here' }));
    await page.context().clearCookies();
    await press(page, 'Allow');
    await signIn(page);
    await page.getByRole('radio', { name: 'Alpha' }).check();
    await press(page, 'Allow');
    assert.equal((await arrival(page, `${site.origin}/cb?`)).get('state'), 'still here');
  },
);

test(
  'a user who signed in again in another tab is asked again, and then reaches the client',
  needsChromium,
  async (t) => {
    const page = await openConsent(t);
    const other = await page.context().newPage();
    await other.goto(`${origin}/sign-in?return_to=/account`);
    await signIn(other);
    await other.getByText(ada).first().waitFor();
    await press(page, 'Allow');
    await page.getByRole('alert').waitFor();
    await page.getByRole('radio', { name: 'Alpha' }).check();
    await press(page, 'Allow');
    assert.ok((await arrival(page, `${site.origin}/cb?`)).has('code'));
  },
);
