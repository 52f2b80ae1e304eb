/**
 * Tasks of a store owner in the store of the demo, each with its number of steps: a change that makes a task longer fails here.
 * docs/measurements/dashboard.md has the numbers. The tasks follow one another, as in the life of a store.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { placeForFixture, startFixture } from '../setup/fixture.ts';
import { until } from '../setup/until.ts';
import { signInCounted, type Effort, type Person } from './counted-person.ts';

const isSkipped = 'skip' in needsChromium;
const place = await placeForFixture();
const fixture = isSkipped ? undefined : await startFixture(place);
const browser = isSkipped ? undefined : await openBrowser();
after(async () => {
  await browser?.close();
  await fixture?.end('SIGTERM');
  await place.remove();
});

/** Registers a task that begins on the page after sign-in, and takes at most `allowed` steps. */
function task(
  name: string,
  allowed: Omit<Effort, 'seconds'>,
  act: (person: Person) => Promise<void>,
  options: { hasScripts?: boolean; prepare?: () => Promise<void> } = {},
): void {
  test(name, needsChromium, async (t) => {
    assert.ok(browser !== undefined && fixture !== undefined);
    await options.prepare?.();
    const { base_url: origin, user } = fixture.demo;
    const person = await signInCounted(browser, { origin, as: user, ...options });
    t.after(() => person.close());
    await act(person);
    const { seconds, ...steps } = person.effort();
    t.diagnostic(`${name}: ${JSON.stringify(steps)}, ${seconds.toFixed(2)} s`);
    assert.deepEqual(steps, allowed);
  });
}

const link = ({ page }: Person, name: string | RegExp) => page.getByRole('link', { name, exact: true });
const button = ({ page }: Person, name: string) => page.getByRole('button', { name, exact: true });
const WAREHOUSE_REASON = /Your endpoint answered 500/;

test('the first page says what is wrong, and offers what to do', needsChromium, async (t) => {
  assert.ok(browser !== undefined && fixture !== undefined);
  const person = await signInCounted(browser, { origin: fixture.demo.base_url, as: fixture.demo.user });
  t.after(() => person.close());
  assert.equal(await person.page.locator('h1').innerText(), '1 of 2 webhooks needs attention.');
  assert.match(await person.page.locator('.concern').innerText(), WAREHOUSE_REASON);
  await person.click(link(person, /^See what is retried/));
  assert.equal(
    await person.page.locator('.log li').count(),
    await person.page.getByText('Retrying', { exact: true }).count(),
  );
});

task('find out why order 2120 did not arrive', { clicks: 2, texts: 1, keys: 1 }, async (person) => {
  const { page } = person;
  await person.click(link(person, 'Deliveries'));
  await person.type(page.getByLabel('Order, customer or other ID'), '2120');
  await Promise.all([page.waitForURL(/resource_id=2120/), person.press('Enter')]);
  const missing = page.locator('.log li', { hasText: /Retrying|Queued/ });
  assert.equal(await missing.count(), 1);
  await person.click(missing.getByRole('link'));
  // Only one of the deliveries that wait need have been attempted; each says what is wrong.
  assert.match(await page.locator('.card').first().innerText(), WAREHOUSE_REASON);
});

task('the same by keyboard', { clicks: 0, texts: 1, keys: 35 }, async (person) => {
  const { page } = person;
  await person.tabTo(/^Deliveries$/);
  await Promise.all([page.waitForURL(/\/statuses$/), person.press('Enter')]);
  await person.tabTo(/^Skip to content$/);
  await person.press('Enter');
  await person.tabTo(/^Order, customer or other ID/);
  await person.typeHere('2120');
  await Promise.all([page.waitForURL(/resource_id=2120/), person.press('Enter')]);
  await person.tabTo(/^Skip to content$/);
  await person.press('Enter');
  await person.tabTo(/^Transaction 2120 captured/);
  await Promise.all([page.waitForURL(/\/statuses\/\d+$/), person.press('Enter')]);
  assert.match(await page.locator('.card').first().innerText(), WAREHOUSE_REASON);
});

task(
  'the same by keyboard, with its shortcuts',
  { clicks: 0, texts: 1, keys: 20 },
  async (person) => {
    const { page } = person;
    await person.tabTo(/^Deliveries$/);
    await Promise.all([page.waitForURL(/\/statuses$/), person.press('Enter')]);
    await person.press('/');
    await person.typeHere('2120');
    await Promise.all([page.waitForURL(/transactions\/2120$/), person.press('Enter')]);
    await person.tabTo(/^Skip to content$/);
    await person.press('Enter');
    await person.tabTo(/^Its deliveries$/);
    await Promise.all([page.waitForURL(/resource_id=2120/), person.press('Enter')]);
    await person.press('j');
    await Promise.all([page.waitForURL(/\/statuses\/\d+$/), person.press('Enter')]);
    assert.match(await page.locator('.card').first().innerText(), WAREHOUSE_REASON);
  },
  { hasScripts: true },
);

task(
  'repair the webhook, and see that everything pending arrives',
  { clicks: 4, texts: 1, keys: 0 },
  async (person) => {
    const { page } = person;
    await person.click(link(person, 'Warehouse'));
    const pending = page.locator('.strip div', { hasText: 'Pending' }).locator('dd').first();
    assert.notEqual(await pending.innerText(), '0');
    await person.click(link(person, 'Edit'));
    await person.type(page.getByLabel('URL', { exact: true }), fixture?.demo.receiver.url ?? '');
    await person.click(button(person, 'Save'));
    await page.getByText('Changes saved.').waitFor();
    await until(
      async () => {
        await page.reload();
        return pending.innerText();
      },
      (count) => count === '0',
    );
    await person.click(link(person, 'Deliveries').last());
    assert.match(await page.locator('nav.states').innerText(), /Retrying\s*0\s*Not arrived\s*0/);
  },
);

task('rotate a key', { clicks: 3, texts: 0, keys: 0 }, async (person) => {
  const { page } = person;
  await person.click(link(person, 'Warehouse'));
  await person.click(link(person, 'Rotate key'));
  await person.click(button(person, 'Rotate the key'));
  await page.locator('#settings').getByText('Rotation ends').waitFor();
});

/** Changes the webhook of the demo's app, as the app does. */
async function changeWebhook(changes: Readonly<Record<string, unknown>>): Promise<void> {
  const { access_token: token, base_url: origin, webhook_id: id } = fixture?.demo ?? {};
  const response = await fetch(`${origin}/webhooks/${id}`, {
    method: 'PATCH',
    headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(changes),
  });
  assert.equal(response.status, 200, await response.text());
}

const LOST = ['4001', '4002', '4003', '4004', '4005'];
task(
  'is everything fine? Five events were lost',
  { clicks: 1, texts: 0, keys: 0 },
  async (person) => {
    const { page } = person;
    assert.match(await page.locator('main').innerText(), /5 events did not arrive/);
    await person.click(button(person, 'Send them again (5)'));
    await until(
      async () => {
        await page.reload();
        return page.locator('main').innerText();
      },
      (text) => /Finished/.test(text),
    );
  },
  {
    prepare: async () => {
      const url = fixture?.demo.receiver.url;
      // Its deliveries are retried, until it is disabled.
      await changeWebhook({ url: 'http://127.0.0.1:9/' });
      for (const order of LOST) await publishOrder(order);
      await changeWebhook({ is_active: false });
      await changeWebhook({ is_active: true, url });
    },
  },
);

task('keep one of two versions that two tabs saved', { clicks: 4, texts: 1, keys: 0 }, async (person) => {
  const { page } = person;
  await person.click(link(person, 'Demo receiver'));
  await person.click(link(person, 'Edit'));
  await person.type(page.getByLabel('Name', { exact: true }), 'Of this tab');
  await changeWebhook({ name: 'Of the app' });
  await person.click(button(person, 'Save'));
  const versions = page.getByRole('region', { name: 'Your version and the stored version' }).locator('tbody');
  assert.match(await versions.innerText(), /Name\s+Of this tab\s+Of the app/);
  await person.click(button(person, 'Save your version'));
  await page.getByText('Changes saved.').waitFor();
  await page.getByRole('heading', { name: 'Of this tab' }).waitFor();
  await changeWebhook({ name: 'Demo receiver' });
});

task('save a form after the session has ended', { clicks: 5, texts: 3, keys: 0 }, async (person) => {
  const { page } = person;
  const { email = '', password = '' } = fixture?.demo.user ?? {};
  await person.click(link(person, 'Demo receiver'));
  await person.click(link(person, 'Edit'));
  await person.type(page.getByLabel('Name', { exact: true }), 'Typed before');
  await page.context().clearCookies();
  await person.click(button(person, 'Save'));
  await person.type(page.getByLabel('E-mail'), email);
  await person.type(page.getByLabel('Password'), password);
  await person.click(button(person, 'Sign in'));
  assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'Typed before');
  await person.click(button(person, 'Save'));
  await page.getByRole('heading', { name: 'Typed before' }).waitFor();
  await changeWebhook({ name: 'Demo receiver' });
});

task('find out who disabled a webhook', { clicks: 1, texts: 0, keys: 0 }, async (person) => {
  await changeWebhook({ is_active: false });
  await person.click(link(person, 'Changelog'));
  const [newest] = await person.page.locator('.log li').allInnerTexts();
  assert.match(newest ?? '', /Demo App, for owner@example\.com, disabled the webhook Demo receiver/);
});

task('invite a person', { clicks: 4, texts: 1, keys: 0 }, async (person) => {
  const { page } = person;
  await person.click(link(person, 'Members'));
  await person.click(page.locator('summary', { hasText: 'Invite a person' }));
  const form = page.locator('details[open]');
  await person.type(form.getByRole('textbox').first(), 'accounting@example.com');
  await person.click(form.getByRole('button'));
  assert.match(await page.locator('pre.command').innerText(), /^http.*\/invitation/);
  await person.click(link(person, 'Back to the members'));
  assert.match(await page.locator('.rows').last().innerText(), /accounting@example\.com/);
});

/** Publishes an event of the order. */
async function publishOrder(id: string): Promise<void> {
  assert.ok(fixture !== undefined);
  const { base_url: origin, store_id: store, platform } = fixture.demo;
  const token = await fetch(`${origin}/token`, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'platform', ...platform }),
  });
  const { access_token: bearer } = (await token.json()) as { access_token: string };
  const published = await fetch(`${origin}/stores/${store}/events`, {
    method: 'POST',
    headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${bearer}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ event: 'transaction/captured', resource: { id, total_order: 5 } }),
  });
  assert.equal(published.status, 201, await published.text());
}

task(
  'watch deliveries and events as they happen',
  { clicks: 2, texts: 0, keys: 0 },
  async (person) => {
    const { page } = person;
    for (const [tab, order] of [
      ['Deliveries', '3001'],
      ['Events', '3002'],
    ] as const) {
      await person.click(link(person, tab).first());
      await page.getByText('Live: changes appear here.').waitFor();
      await publishOrder(order);
      await page
        .getByRole('link', { name: `Transaction ${order} captured` })
        .first()
        .waitFor();
    }
  },
  { hasScripts: true },
);

task('disconnect an app', { clicks: 3, texts: 0, keys: 0 }, async (person) => {
  const { page } = person;
  await person.click(link(person, 'Connected apps'));
  await person.click(page.getByText('Disconnect …'));
  assert.ok(await page.getByText('1 webhook that it created is disabled').isVisible());
  await person.click(button(person, 'Disconnect Demo App from Demo Store'));
  await page.getByText('App disconnected: its tokens no longer work').waitFor();
});
