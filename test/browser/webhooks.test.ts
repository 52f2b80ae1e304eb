/** A webhook from creation to deletion, and its deliveries: by clicking only. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { PASSWORD } from '../security/oauth-server.ts';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { inhabit } from '../setup/populated-app.ts';
import { until } from '../setup/until.ts';

const fixture = await inhabit({ isResolvable: true });
const browser = 'skip' in needsChromium ? undefined : await openBrowser();
after(() => browser?.close());

/** The folder for pictures, to look at them; none unless it is set. */
const PICTURES = process.env['PICTURES'];

async function picture(page: Page, name: string): Promise<void> {
  if (PICTURES !== undefined) await page.screenshot({ path: `${PICTURES}/${name}.png`, fullPage: true });
}

const heading = (page: Page) => page.getByRole('heading', { level: 1 });
async function follow(page: Page, name: string | RegExp): Promise<void> {
  await page
    .getByRole('link', { name, exact: typeof name === 'string' })
    .first()
    .click();
  await heading(page).waitFor();
}
/** Opens a tab of the webhook; the store has one of the same name. */
async function openTab(page: Page, name: string): Promise<void> {
  await page.getByRole('navigation', { name: 'This webhook' }).getByRole('link', { name, exact: true }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
}
const open = (page: Page, summary: string): Promise<void> => page.locator('summary', { hasText: summary }).click();
const press = (page: Page, name: string): Promise<void> => page.getByRole('button', { name, exact: true }).click();
const answers = (page: Page, text: string | RegExp): Promise<void> => page.getByText(text).first().waitFor();

/** From the start page to the webhooks of the first store. */
async function enter(page: Page): Promise<void> {
  await page.goto(fixture.origin);
  await follow(page, 'Sign in');
  await page.getByLabel('E-mail').fill(fixture.ada);
  await page.getByLabel('Password').fill(PASSWORD);
  await press(page, 'Sign in');
  await follow(page, 'Alpha');
  await picture(page, 'store');
  await follow(page, /^Webhooks/);
}

async function happens(): Promise<void> {
  const body = { event: 'transaction/created', resource: { id: 4_711, total_order: 12.5, currency_code: 'EUR' } };
  const { status } = await fixture.call('POST', `/stores/${fixture.alpha}/events`, {
    token: fixture.tokens.platform,
    body,
  });
  assert.equal(status, 201);
}

for (const javaScriptEnabled of [true, false]) {
  test(
    `a person creates, changes, disables and deletes a webhook ${javaScriptEnabled ? 'with' : 'without'} JavaScript`,
    needsChromium,
    async (t) => {
      assert.ok(browser !== undefined);
      const context = await browser.newContext({ javaScriptEnabled });
      t.after(() => context.close());
      const page = await context.newPage();
      await enter(page);
      await picture(page, 'webhooks');

      const form = page.locator('form').filter({ has: page.getByRole('button', { name: 'Create' }) });
      if (!(await form.getByLabel('Name').isVisible())) await open(page, 'Create a webhook');
      await form.getByLabel('Name').fill('Clicked');
      await form.getByLabel('Format').selectOption('json');
      await form.getByLabel('URL').fill('ftp://wrong');
      await form.getByLabel('Event resource').selectOption('transaction');
      await form.getByRole('button', { name: 'Create' }).click();
      await answers(page, /URL must be .*https/);
      await picture(page, 'webhook-refused');
      assert.equal(await form.getByLabel('Name').inputValue(), 'Clicked', 'all input is kept');
      await form.getByLabel('URL').fill(`${fixture.receiver.url}/fails`);
      await form.getByRole('button', { name: 'Create' }).click();
      await answers(page, 'Created.');
      assert.equal(await heading(page).textContent(), 'Clicked');
      await picture(page, 'webhook-made');

      await follow(page, 'Edit');
      await page.getByLabel('Name').fill('Clicked again');
      await page.getByLabel('transaction/voided').uncheck();
      await picture(page, 'webhook-form');
      await press(page, 'Save');
      await answers(page, 'Changes saved.');
      assert.equal(await heading(page).textContent(), 'Clicked again');
      assert.equal(await page.locator('dd li', { hasText: 'transaction/created' }).count(), 1);
      assert.equal(await page.locator('dd li', { hasText: 'transaction/voided' }).count(), 0);

      await happens();
      const address = page.url();
      const id = Number(/\d+/.exec(new URL(address).pathname)?.[0]);
      await until(
        () => fixture.sql`select from attempt_log where webhook_id = ${id}`,
        (rows) => rows.length === 1,
      );
      await openTab(page, 'Deliveries');
      await page.locator('.badge', { hasText: 'Retrying' }).waitFor();
      await picture(page, 'deliveries');
      await page.goBack();
      await follow(page, /Attempts/);
      await answers(page, '500');
      await picture(page, 'attempts');
      assert.match((await page.locator('main').textContent()) ?? '', /refused/i);
      await follow(page, 'Clicked again');

      await follow(page, 'Disable');
      await answers(page, '1 pending delivery fails.');
      await press(page, 'Disable this webhook');
      await answers(page, 'Changes saved.');
      await page.locator('.badge', { hasText: 'Disabled' }).waitFor();
      await picture(page, 'webhook-disabled');
      await openTab(page, 'Deliveries');
      await page.locator('.badge', { hasText: 'Failed' }).waitFor();
      await page.goBack();

      await follow(page, 'Delete');
      await press(page, 'Delete this webhook');
      await answers(page, 'Deleted.');
      assert.equal(await page.getByRole('link', { name: 'Clicked again' }).count(), 0);
      assert.equal((await fixture.sql`select from webhook where id = ${id}`).length, 0);
    },
  );
}
