/** A store owner finds out why a delivery failed in two clicks, and sends it again with one: without JavaScript. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { PASSWORD } from '../security/oauth-server.ts';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { inhabit } from '../setup/populated-app.ts';
import { until } from '../setup/until.ts';
import { assertAccessible, looks } from './page-checks.ts';

const fixture = await inhabit({ isResolvable: true });
const browser = 'skip' in needsChromium ? undefined : await openBrowser();
after(() => browser?.close());
const [, warehouse] = fixture.webhooks;

/** The folder for pictures, to look at them; none unless it is set. */
const PICTURES = process.env['PICTURES'];
async function picture(page: Page, name: string): Promise<void> {
  if (PICTURES !== undefined) await page.screenshot({ path: `${PICTURES}/${name}.png`, fullPage: true });
}

async function open(page: Page, path: string): Promise<void> {
  await page.goto(`${fixture.origin}${path}`);
  await page.getByRole('heading', { level: 1 }).waitFor();
}
async function signIn(page: Page): Promise<void> {
  await open(page, '/sign-in');
  await page.getByLabel('E-mail').fill(fixture.ada);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForLoadState();
}
const textOf = async (page: Page): Promise<string> => (await page.locator('main').innerText()).replaceAll(/\s+/g, ' ');
async function setActive(is_active: '0' | '1'): Promise<void> {
  assert.equal((await fixture.call('PATCH', `/webhooks/${warehouse}`, { body: { is_active } })).status, 200);
}

test('the page of a delivery shows why it failed and what was sent, and sends it again', needsChromium, async (t) => {
  assert.ok(browser !== undefined);
  const context = await browser.newContext({ javaScriptEnabled: false });
  t.after(() => context.close());
  const page = await context.newPage();
  await signIn(page);
  await open(page, `/webhooks/${warehouse}`);
  await page.locator('main').getByRole('link', { name: 'Deliveries', exact: true }).click();
  await page.locator('.entry a').first().click();
  assert.match(await textOf(page), /Your endpoint answered 500: /);
  await picture(page, 'delivery-pending');
  assert.equal(await page.getByRole('button', { name: 'Send it again' }).count(), 0, 'it is retried anyway');

  const attempts = page.getByRole('heading', { name: 'Attempts' }).locator('..').getByRole('listitem');
  assert.equal(await attempts.count(), 1);
  const attempt = attempts.first();
  assert.match(await attempt.innerText(), /^Attempt 1\s+Refused\s[^]*2026[^]*\d+ ms\s[^]*Response 500/);
  const answer = attempt.getByText('The shelf is full');
  assert.equal(await answer.isVisible(), true, 'the response of a failed attempt is open');
  await attempt.locator('summary', { hasText: 'Response 500' }).click();
  assert.equal(await answer.isVisible(), false);
  const request = page.getByRole('heading', { name: 'Request' }).locator('..');
  assert.match(await request.innerText(), /This is the request of attempt 1\./);
  await request.locator('summary', { hasText: 'Copy as curl' }).click();
  assert.match(await request.locator('.command').innerText(), /^curl /);
  const signed = /webhook-signature: (v1,\S+)/.exec(await request.innerText())?.[1];
  assert.equal(signed, fixture.receiver.got.find(({ path }) => path === '/fails')?.headers['webhook-signature']);

  await setActive('0');
  await setActive('1');
  fixture.receiver.answer((_got, response) => void response.writeHead(200).end('Thank you'));
  await page.reload();
  await picture(page, 'delivery-failed');
  const before = page.url();
  await page.getByRole('button', { name: 'Send it again' }).click();
  await page.getByText('Started.').waitFor();
  assert.notEqual(new URL(page.url()).pathname, new URL(before).pathname, 'the browser shows the page of the result');
  await until(
    async () => {
      await page.reload();
      return textOf(page);
    },
    (text) => text.includes('at the first attempt'),
  );
  assert.match(await page.getByRole('listitem').filter({ hasText: ' ms' }).innerText(), /Delivered/);
  await picture(page, 'delivery-successful');
});

for (const [look, rules, options] of looks) {
  test(`axe finds no violation on it, ${look}`, needsChromium, async (t) => {
    assert.ok(browser !== undefined);
    const [row] = await fixture.sql<{ id: number }[]>`
      select delivery_id as id from attempt_log where webhook_id = ${warehouse ?? 0} and outcome = 'refused' limit 1`;
    const context = await browser.newContext(options);
    t.after(() => context.close());
    const page = await context.newPage();
    await signIn(page);
    await open(page, `/webhooks/${warehouse}/statuses/${row?.id}`);
    await page.evaluate('for (const one of document.querySelectorAll("details")) one.open = true');
    await picture(page, `delivery-${look}`);
    await assertAccessible(page, rules);
  });
}
