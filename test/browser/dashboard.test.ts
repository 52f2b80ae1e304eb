/** The pages of a store as one whole: reached by clicking, searched, and used by keyboard alone. No JavaScript. */
import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { PASSWORD } from '../security/oauth-server.ts';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { faultsIn } from '../setup/html-validator.ts';
import { inhabit } from '../setup/populated-app.ts';
import { assertAccessible, looks } from './page-checks.ts';

const fixture = await inhabit({ isResolvable: true });
const browser = 'skip' in needsChromium ? undefined : await openBrowser();
after(() => browser?.close());
const [orders, warehouse, automation] = fixture.webhooks;
const store = `/stores/${fixture.alpha}`;
const cookies = [...fixture.browser.jar].map(([name, value]) => ({ name, value, url: fixture.origin }));

async function open(t: TestContext, options: BrowserContextOptions = {}): Promise<Page> {
  assert.ok(browser !== undefined);
  const context = await browser.newContext({ javaScriptEnabled: false, baseURL: fixture.origin, ...options });
  t.after(() => context.close());
  return context.newPage();
}
async function enter(t: TestContext, options: BrowserContextOptions = {}): Promise<Page> {
  const page = await open(t, options);
  await page.context().addCookies(cookies);
  return page;
}

const crumbs = (page: Page): Promise<string[]> => page.locator('.crumbs a').allInnerTexts();
const currentTab = (page: Page): Promise<string> => page.locator('.tabs [aria-current]').innerText();

test('from a delivery links lead back to its webhook and its store, step by step', needsChromium, async (t) => {
  const page = await enter(t);
  await page.goto(`/webhooks/${warehouse}/statuses`);
  await page.locator('.entry a').first().click();
  assert.deepEqual(await crumbs(page), ['Store', 'Webhooks', 'Warehouse', 'Deliveries']);
  for (const [step, left] of [
    ['Deliveries', ['Store', 'Webhooks', 'Warehouse']],
    ['Warehouse', ['Store', 'Webhooks']],
    ['Webhooks', ['Store']],
    ['Store', []],
  ] as const) {
    assert.equal(await page.locator('.tabs strong').innerText(), 'Alpha');
    assert.equal(await currentTab(page), 'Webhooks');
    await page.locator('.crumbs').getByRole('link', { name: step, exact: true }).click();
    assert.deepEqual(await crumbs(page), left);
  }
  for (const place of ['Overview', 'Webhooks', 'Events', 'Members', 'Changelog', 'Store']) {
    await page.locator('.tabs').getByRole('link', { name: place, exact: true }).click();
    assert.equal(await currentTab(page), place);
  }
});

test('a search shows its result, keeps its filters, and removes one filter at a time', needsChromium, async (t) => {
  await fixture.sql`update store set time_zone = 'Europe/Berlin' where id = ${fixture.alpha}`;
  t.after(() => fixture.sql`update store set time_zone = 'UTC' where id = ${fixture.alpha}`);
  const page = await enter(t);
  await page.goto(`${store}/events`);
  await page.locator('.search > summary').click();
  await page.getByLabel('Resource type').selectOption('transaction');
  await page.getByLabel('Date created after').fill('2026-07-01T11:59');
  await page.getByRole('button', { name: 'Search' }).click();
  const asked = new URL(page.url()).searchParams;
  assert.deepEqual(
    [...asked],
    [
      ['resource_type', 'transaction'],
      ['date_created:greaterthan', '2026-07-01T11:59'],
    ],
  );
  assert.equal(await page.getByRole('row').count(), 2, 'one event, and the column headings');
  assert.equal(await page.getByLabel('Date created after').inputValue(), '2026-07-01T11:59');
  await page.getByLabel('Date created after').fill('2026-07-01T12:01');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByText('No events match these filters.').waitFor();
  await page.locator('.filters').getByRole('link', { name: 'Date created after' }).click();
  assert.deepEqual([...new URL(page.url()).searchParams.keys()], ['resource_type']);
  assert.equal(await page.getByRole('row').count(), 2);
});

/** Sends the form of an invitation, and opens its link as another person. */
async function invite(t: TestContext, page: Page): Promise<Page> {
  await page.getByRole('combobox', { name: 'Role' }).selectOption('Member');
  await page.getByRole('button', { name: 'Invite a person' }).click();
  const link = new URL(await page.locator('.command').innerText());
  const guest = await page.context().browser()?.newPage();
  assert.ok(guest !== undefined);
  t.after(() => guest.close());
  await guest.goto(new URL(link.pathname, page.url()).href);
  return guest;
}

test('a store owner invites a person with an account, who joins, and removes them again', needsChromium, async (t) => {
  const page = await enter(t);
  await page.goto(`${store}/members`);
  await page.locator('summary', { hasText: 'Invite a person' }).click();
  await page.getByRole('textbox', { name: 'Email' }).fill(fixture.bob);
  const guest = await invite(t, page);
  await guest.getByRole('link', { name: 'Sign in and join' }).click();
  await guest.getByLabel('E-mail').fill(fixture.bob);
  await guest.getByLabel('Password').fill(PASSWORD);
  await guest.getByRole('button', { name: 'Sign in', exact: true }).click();
  await guest.getByRole('button', { name: 'Join the store' }).click();
  await guest.getByText('You are a member of this store now.').waitFor();
  await page.getByRole('link', { name: 'Back to the members' }).click();
  await page.getByRole('link', { name: fixture.bob }).click();
  await page.locator('summary', { hasText: 'Remove the member' }).click();
  await page.getByText('lose access immediately').waitFor();
  await page.getByRole('button', { name: 'Remove the member' }).click();
  await page.getByText('Deleted.').waitFor();
  assert.equal(await page.getByRole('link', { name: fixture.bob }).count(), 0);
});

test('a store owner invites a person, who creates an account and opens the store', needsChromium, async (t) => {
  const page = await enter(t);
  await page.goto(`${store}/members`);
  await page.locator('summary', { hasText: 'Invite a person' }).click();
  const guest = await invite(t, page);
  await guest.getByLabel('E-mail').fill('guest@example.com');
  await guest.getByLabel('Password').fill('a battery, stapled');
  await guest.getByRole('button', { name: 'Create an account and join' }).click();
  await guest.getByText('You are a member of this store now.').waitFor();
  await page.getByRole('link', { name: 'Back to the members' }).click();
  await page.getByRole('link', { name: 'guest@example.com' }).waitFor();
  assert.equal(await page.getByText('Pending invitations').count(), 0);
});

/** Presses Tab through links, fields and buttons until one has this name; fails after a limit. */
const TABS_MAX = 60;
/** The name of the focused element: its label, or its content. */
const FOCUSED = `(() => {
  const { activeElement: at } = document;
  const words = [...(at.labels ?? [])].map(({ textContent }) => textContent).join(' ');
  return (words || at.getAttribute('aria-label') || at.textContent).replaceAll(/\\s+/g, ' ').trim();
})()`;
async function tabTo(page: Page, name: RegExp): Promise<void> {
  const seen: string[] = [];
  for (let tabs = 0; tabs < TABS_MAX; tabs += 1) {
    await page.keyboard.press('Tab');
    const called = await page.evaluate<string>(FOCUSED);
    if (name.test(called)) return;
    seen.push(called);
  }
  assert.fail(`no element is named ${String(name)}: ${seen.join(' · ')}`);
}
async function go(page: Page, name: RegExp): Promise<void> {
  await tabTo(page, name);
  await Promise.all([page.waitForEvent('load'), page.keyboard.press('Enter')]);
}

test(
  'by keyboard alone: sign in, change a webhook, find out why a delivery failed, sign out',
  needsChromium,
  async (t) => {
    const page = await open(t);
    const { keyboard } = page;
    await page.goto('/sign-in');
    await keyboard.press('Tab');
    assert.equal(await page.locator(':focus').innerText(), 'Skip to content');
    await tabTo(page, /^E-mail/);
    await keyboard.type(fixture.ada);
    await tabTo(page, /^Password/);
    await keyboard.type(PASSWORD);
    await keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Your stores' }).waitFor();
    await go(page, /^Alpha$/);
    await go(page, /^Webhooks$/);
    await go(page, /^Warehouse$/);
    await page.getByRole('heading', { level: 1, name: 'Warehouse' }).waitFor();

    await tabTo(page, /^Edit$/);
    await keyboard.press('Enter');
    await tabTo(page, /^Name/);
    await keyboard.press('End');
    await keyboard.type(' of the south');
    await tabTo(page, /^More settings/);
    await keyboard.press('Enter');
    await tabTo(page, /^Active/);
    await keyboard.press('ArrowDown');
    await go(page, /^Save$/);
    await page.getByText('Changes saved.').waitFor();
    await page.getByRole('heading', { level: 1, name: 'Warehouse of the south' }).waitFor();

    await go(page, /^Deliveries$/);
    await tabTo(page, /^Search$/);
    await keyboard.press('Enter');
    await tabTo(page, /^Status/);
    await keyboard.type('Fail');
    await go(page, /^Search$/);
    assert.equal(new URL(page.url()).search, '?status=failed');
    await go(page, /^Transaction .+ \w+$/);
    assert.match(await page.locator('main').innerText(), /Your endpoint answered 500/);
    await go(page, /^Sign out$/);
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    await page.goto(store);
    assert.equal(new URL(page.url()).pathname, '/sign-in');
  },
);

/** Returns the address of a delivery of the webhook. */
async function deliveryOf(webhook = 0): Promise<string> {
  const [row] = await fixture.sql<{ id: number }[]>`
    select delivery_id as id from attempt_log where webhook_id = ${webhook} order by delivery_id limit 1`;
  return `/webhooks/${webhook}/statuses/${row?.id}`;
}

const PAGES: readonly (readonly [name: string, path: string])[] = [
  ['home', '/'],
  ['stores', '/stores'],
  ['store', store],
  ['webhooks', `${store}/webhooks`],
  ['webhooks of a store that has none', `/stores/${fixture.beta}/webhooks`],
  ['overview', `${store}/overview`],
  ['overview of a week', `${store}/overview?period=7d`],
  ['overview of a store that has no webhooks', `/stores/${fixture.beta}/overview`],
  ['webhook', `/webhooks/${orders}`],
  ['webhook, failing', `/webhooks/${warehouse}`],
  ['webhook, disabled', `/webhooks/${automation}`],
  ['webhook, its settings being changed', `/webhooks/${orders}#change`],
  ['webhook, its key being rotated', `/webhooks/${orders}#rotate_key`],
  ['webhook, to be disabled', `/webhooks/${orders}#disable`],
  ['webhook, to be deleted', `/webhooks/${orders}#delete`],
  ['deliveries of the store', `${store}/statuses`],
  ['deliveries of the store, those of a resource', `${store}/statuses?resource_id=1002`],
  ['delivery that arrived', await deliveryOf(orders)],
  ['delivery that is retried', await deliveryOf(warehouse)],
  ['deliveries', `/webhooks/${warehouse}/statuses`],
  ['deliveries, searched', `/webhooks/${orders}/statuses?status=successful&date_created:greaterthan=2026-01-01`],
  ['deliveries, none found', `/webhooks/${orders}/statuses?status=failed`],
  ['attempts', `/webhooks/${orders}/logs`],
  ['recoveries', `/webhooks/${orders}/recoveries`],
  ['recovery', `/webhooks/${orders}/recoveries/${fixture.recovery}`],
  ['events', `${store}/events`],
  ['webhooks with their dates', `${store}/webhooks?fields=name,state,format,url,date_created,date_modified`],
  ['event', `${store}/events/${fixture.events[1]}`],
  ['payload', `${store}/events/${fixture.events[1]}/payload`],
  ['members', `${store}/members`],
  ['changelog', `${store}/changelogs`],
  ['changelog, none found', `${store}/changelogs?resource=nothing`],
  ['member', `${store}/members/${fixture.adaId}`],
  ['connected apps', `/users/${fixture.adaId}/grants`],
  ['nothing', '/webhooks/9'],
  ['a query that cannot be read', `${store}/events?x=1`],
];

test('on a phone the header has two lines, each of which can be swiped to its end', needsChromium, async (t) => {
  const [width, lineMax] = [360, 48];
  const page = await enter(t, { viewport: { width, height: 740 } });
  await page.goto(`${store}/overview`);
  const header = await page.locator('header').boundingBox();
  assert.ok((header?.height ?? Infinity) <= 2 * lineMax + 16, `${header?.height} px`);
  for (const last of [page.getByRole('button', { name: 'Sign out' }), page.locator('.tabs a').last()]) {
    await last.scrollIntoViewIfNeeded();
    const box = await last.boundingBox();
    assert.ok(box !== null && box.x >= 0 && box.x + box.width <= width, JSON.stringify(box));
  }
});

test('an independent validator accepts all pages of a store', async (t) => {
  for (const [name, path] of PAGES) {
    await t.test(name, async () => {
      const headers = { Accept: 'text/html', Cookie: fixture.browser.cookie() ?? '' };
      const response = await fetch(fixture.origin + path, { headers });
      assert.deepEqual(await faultsIn(await response.text()), []);
    });
  }
});

for (const [look, rules, options] of looks) {
  test(`axe finds no violation on any page of a store, ${look}`, needsChromium, async (t) => {
    const page = await enter(t, { ...options, javaScriptEnabled: true });
    // Beside a date of yesterday the page says so.
    await page.clock.setFixedTime('2026-07-02T15:00:00Z');
    for (const [name, path] of PAGES) {
      await t.test(name, async () => {
        if (options.viewport) await page.setViewportSize(options.viewport);
        await page.goto(path);
        await page.evaluate('for (const one of document.querySelectorAll("details")) one.open = true');
        await assertAccessible(page, rules);
      });
    }
  });
}
