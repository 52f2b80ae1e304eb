/** A link of the platform in a real browser: in a window, and in a frame of a page of another site. */
import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import type { BrowserContext, Frame, Page } from 'playwright-core';
import { PASSWORD, startAuthorizationServer } from '../security/oauth-server.ts';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { startSite } from './client-site.ts';

/** The content of a page is given in its address. */
const content = ({ searchParams }: URL) => ({ html: searchParams.get('html') ?? '' });
const [platform, other] = [await startSite(content), await startSite(content)];
const server = await startAuthorizationServer({ PORTAL_FRAME_ORIGINS: platform.origin }, { isResolvable: true });
const { origin, sql, alpha, adaId } = server;
const browser = 'skip' in needsChromium ? undefined : await openBrowser();
after(async () => {
  await browser?.close();
  platform.close();
  other.close();
});

async function newLink(): Promise<string> {
  const form = { grant_type: 'client_credentials', scope: 'platform', ...server.platform };
  const { body } = await server.token(form);
  const response = await fetch(`${origin}/stores/${alpha}/links`, {
    method: 'POST',
    headers: {
      'SERVICE-API-VERSION': '1',
      'Content-Type': 'application/json',
      Authorization: `Bearer ${String(body['access_token'])}`,
    },
    body: JSON.stringify({ user: adaId }),
  });
  return ((await response.json()) as { url: string }).url;
}

async function newContext(t: TestContext): Promise<BrowserContext> {
  assert.ok(browser !== undefined);
  const context = await browser.newContext();
  t.after(() => context.close());
  return context;
}

const pageOf = (site: string, html: string): string => `${site}/?${new URLSearchParams({ html }).toString()}`;
const framing = (address: string): string => `<iframe width="1000" height="900" src="${address}"></iframe>`;
const overview = `${origin}/stores/${alpha}/overview`;
const OPEN = { name: 'Open Alpha' };

/** Returns the frame of a page; its address is `chrome-error:` if the browser refuses to show its content. */
async function frameIn(page: Page): Promise<Frame> {
  const [, frame] = page.frames();
  assert.ok(frame !== undefined);
  await frame.waitForLoadState();
  return frame;
}
const isRefused = (frame: Frame): boolean => frame.url().startsWith('chrome-error:');

/** Opens a link in a frame of the platform's page, up to the overview of the store. */
async function openFramed(context: BrowserContext): Promise<{ page: Page; frame: Frame }> {
  const page = await context.newPage();
  await page.goto(pageOf(platform.origin, framing(await newLink())));
  const frame = await frameIn(page);
  await frame.getByRole('button', OPEN).click();
  await frame.waitForURL(overview);
  return { page, frame };
}

test(
  'a link opens the store in a window, once, and everything beyond it asks for a sign-in',
  needsChromium,
  async (t) => {
    const context = await newContext(t);
    const page = await context.newPage();
    const link = await newLink();
    await page.goto(pageOf(platform.origin, `<a href="${link}">My webhooks</a>`));
    await page.getByRole('link', { name: 'My webhooks' }).click();
    await page.getByText('ada@example.com').waitFor();
    await page.getByRole('button', OPEN).click();
    await page.waitForURL(overview);
    await page.getByRole('link', { name: 'Webhooks', exact: true }).click();
    await page.waitForURL(`${origin}/stores/${alpha}/webhooks`);
    const [session, ...others] = await context.cookies(origin);
    assert.deepEqual([session?.name, session?.sameSite, others.length], ['halcyon', 'Lax', 0]);
    await page.goto(`${origin}/account`);
    await page.getByLabel('E-mail').fill(server.ada);
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL(`${origin}/account`);
    assert.equal((await page.goto(link))?.status(), 410);
  },
);

test('a store works in a frame of the platform: its pages, their forms and their renewal', needsChromium, async (t) => {
  const context = await newContext(t);
  const { page, frame } = await openFramed(context);
  const [cookie, ...others] = await context.cookies(origin);
  assert.deepEqual(
    [cookie?.name, cookie?.sameSite, cookie?.secure, others.length],
    ['halcyon-framed', 'None', true, 0],
  );
  await frame.getByRole('link', { name: 'Webhooks', exact: true }).click();
  await frame.waitForURL(`${origin}/stores/${alpha}/webhooks`);
  await frame.getByLabel('Name', { exact: true }).fill('Made in a frame');
  await frame.getByLabel('Format', { exact: true }).selectOption('json');
  const live = context.waitForEvent('response', (response) => response.url().includes('/live'));
  await frame.getByRole('button', { name: 'Create a webhook' }).click();
  await frame.waitForURL(/\/webhooks\/\d+/);
  assert.equal((await live).status(), 200, 'the page is renewed');
  assert.equal((await sql`select from webhook where name = 'Made in a frame'`).length, 1);
  assert.equal(page.url().startsWith(platform.origin), true, 'the page around the frame stays');

  // The same browser has no session in a window of its own: a frame keeps its cookie for the site around it.
  const top = await context.newPage();
  await top.goto(overview);
  assert.match(top.url(), /\/sign-in\?/);
});

test(
  'what needs a sign-in is opened from the frame in a window, where the person signs in',
  needsChromium,
  async (t) => {
    const context = await newContext(t);
    const { frame } = await openFramed(context);
    await frame.goto(`${origin}/stores`);
    const opened = context.waitForEvent('page');
    await frame.getByRole('link', { name: 'Sign in in a new window' }).click();
    const signIn = await opened;
    await signIn.waitForURL(/\/sign-in\?/);
    await signIn.getByLabel('E-mail').fill(server.ada);
    await signIn.getByLabel('Password').fill(PASSWORD);
    await signIn.getByRole('button', { name: 'Sign in' }).click();
    await signIn.waitForURL(`${origin}/stores`);
    await frame.goto(overview);
    assert.equal(isRefused(frame), false);
  },
);

test(
  'no other origin shows the pages, and none shows those of sign-in, consent and account',
  needsChromium,
  async (t) => {
    const context = await newContext(t);
    const elsewhere = await context.newPage();
    // Under this name it is the same site as the server, and another origin.
    const near = `http://127.0.0.1:${other.port}`;
    for (const site of [other.origin, near]) {
      await elsewhere.goto(pageOf(site, framing(await newLink())));
      assert.equal(isRefused(await frameIn(elsewhere)), true, site);
    }
    const { page, frame } = await openFramed(context);
    const consent = `${origin}/authorize?${new URLSearchParams(server.asking()).toString()}`;
    for (const address of [`${origin}/sign-in`, consent]) {
      await frame.goto(address);
      await frame.getByRole('link', { name: 'Sign in in a new window' }).waitFor();
    }
    await assert.rejects(frame.goto(`${origin}/forgot-password`), /ERR_BLOCKED_BY_RESPONSE/);
    // A page of the platform that contains one of another origin, which contains a page of the store.
    const inner = pageOf(other.origin, framing(overview).replaceAll('"', "'"));
    await page.goto(pageOf(platform.origin, framing(inner.replaceAll('"', '&quot;'))));
    await page.waitForLoadState('networkidle');
    const innermost = page.frames().at(-1);
    assert.ok(innermost !== undefined && page.frames().length === 3, String(page.frames().map((one) => one.url())));
    assert.equal(isRefused(innermost), true, innermost.url());
  },
);

test('a page of another site cannot send a form with the cookie of the frame', needsChromium, async (t) => {
  const context = await newContext(t);
  const { page } = await openFramed(context);
  const before = (await sql`select from webhook`).length;
  const form = `<form method="post" action="${origin}/stores/${alpha}/webhooks"><input name="name" value="Forged"><input name="format" value="json"><button>Go</button></form>`;
  for (const html of [form, `<iframe srcdoc='${form}'></iframe>`]) {
    await page.goto(pageOf(platform.origin, html));
    const target = page.frames().at(-1);
    const answered = page.waitForResponse((response) => response.request().method() === 'POST');
    await target?.getByRole('button', { name: 'Go' }).click();
    assert.equal((await answered).status(), 403);
  }
  assert.equal((await sql`select from webhook`).length, before);
});
