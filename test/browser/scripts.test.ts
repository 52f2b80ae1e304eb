/** What scripts add to the pages: how long ago dates were, copy buttons, keyboard shortcuts. Without scripts the pages are complete. */
import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { inhabit } from '../setup/populated-app.ts';
import { until } from '../setup/until.ts';
import { assertAccessible, looks } from './page-checks.ts';

const fixture = await inhabit({ isResolvable: true });
const browser = 'skip' in needsChromium ? undefined : await openBrowser();
after(() => browser?.close());
const [orders] = fixture.webhooks;
const deliveries = `/webhooks/${orders}/statuses`;
const events = `/stores/${fixture.alpha}/events`;
const examples = '/docs';
const cookies = [...fixture.browser.jar].map(([name, value]) => ({ name, value, url: fixture.origin }));

/** The time in the fixture, which stands still. */
const NOW = '2026-07-01T12:00:00Z';

async function enter(t: TestContext, options: BrowserContextOptions = {}): Promise<Page> {
  assert.ok(browser !== undefined);
  const context = await browser.newContext({ baseURL: fixture.origin, ...options });
  t.after(() => context.close());
  await context.addCookies(cookies);
  const page = await context.newPage();
  const broken: string[] = [];
  page.on('console', (message) => message.type() === 'error' && broken.push(message.text()));
  page.on('pageerror', (error) => broken.push(error.message));
  t.after(() => assert.deepEqual(broken, [], 'no script fails, and the browser blocks nothing'));
  return page;
}

test(
  'a recent date says how long ago it was beside its clock time, and its title is the exact date',
  needsChromium,
  async (t) => {
    const page = await enter(t);
    await page.clock.setFixedTime(NOW);
    await page.goto(deliveries);
    const time = page.locator('.log time').first();
    assert.match(await time.locator('relative-time').evaluate((one) => one.shadowRoot?.textContent ?? ''), /ago$/);
    assert.match((await time.textContent()) ?? '', /^\d\d:\d\d UTC(\+\d)? \(\)$/);
    assert.match((await time.getAttribute('title')) ?? '', /^2026-\d\d-\d\d \d\d:\d\d:\d\d UTC[+-]\d\d:\d\d$/);
  },
);

test('an older date stays as it is', needsChromium, async (t) => {
  const page = await enter(t);
  await page.clock.setFixedTime('2027-01-01T00:00:00Z');
  await page.goto(deliveries);
  assert.equal(await page.locator('relative-time').count(), 0);
  assert.match(await page.locator('.log time').first().innerText(), /^\d\d:\d\d UTC/);
});

test('a date with seconds stays exact, to be compared with logs', needsChromium, async (t) => {
  const page = await enter(t);
  await page.clock.setFixedTime(NOW);
  await page.goto(deliveries);
  await page.locator('.entry a').first().click();
  const exact = page.locator('time.exact').first();
  assert.match(await exact.innerText(), /\d\d:\d\d:\d\d UTC/);
  assert.equal(await exact.locator('relative-time').count(), 0);
});

test('a button copies a block as it is, and says so', needsChromium, async (t) => {
  const page = await enter(t, { permissions: ['clipboard-read', 'clipboard-write'] });
  await page.goto(examples);
  const block = page.locator('pre.copyable').first();
  // What GitHub's element would change.
  const text = 'a\u00a0b\u200d{}\n  "c"';
  await block.evaluate((one, to) => (one.textContent = to), text);
  await page.evaluate('for (const one of document.querySelectorAll("details")) one.open = true');
  await page.getByRole('button', { name: 'Copy' }).first().click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  assert.equal(await page.locator('[role=status].unseen').innerText(), 'Copied');
  assert.equal(await page.evaluate('navigator.clipboard.readText()'), text);
});

test('a form is sent once, also on a double click', needsChromium, async (t) => {
  const page = await enter(t);
  await page.goto(deliveries);
  const sent = await page.evaluate(`{
    let count = 0;
    addEventListener('submit', (event) => {
      if (!event.defaultPrevented) count += 1;
      event.preventDefault();
    });
    const form = document.querySelector('form[method=post]');
    form.requestSubmit();
    form.requestSubmit();
    count;
  }`);
  assert.equal(sent, 1);
});

test('a page with input that was not sent asks before it is left, and no other', needsChromium, async (t) => {
  const page = await enter(t);
  const asked: string[] = [];
  page.on('dialog', (dialog) => {
    asked.push(dialog.type());
    void dialog.dismiss();
  });
  const webhook = `${fixture.origin}/webhooks/${orders}`;
  const leave = () =>
    page.goto(events).then(
      () => true,
      () => false,
    );
  await page.goto(events);
  await page.goto(webhook);
  await page.getByRole('link', { name: 'Edit' }).click();
  const name = page.locator('#change').getByLabel('Name', { exact: true });
  await name.fill('Typed');
  assert.equal(await leave(), false);
  await page.evaluate('history.go(-2)');
  await until(
    async () => asked.length,
    (count) => count === 2,
  );
  assert.deepEqual([page.url().split('#', 1)[0], await name.inputValue()], [webhook, 'Typed']);
  await name.fill('Orders');
  assert.equal(await leave(), true, 'what was typed is gone');
  await page.goto(`${webhook}#recover`);
  const other = page.locator('#recover').getByLabel('Since', { exact: true });
  assert.equal(await other.isVisible(), false);
  await page.getByLabel('Another time').check();
  await other.fill('2026-07-01T09:00');
  await page.getByRole('button', { name: 'Count the events' }).click();
  await page.getByText('would be sent.').waitFor();
  assert.equal(asked.length, 2, 'a form that is sent needs no question');
  assert.equal(await other.inputValue(), '2026-07-01T09:00');
  // The browser asks only on a page that was used.
  await page.locator('#recover h2').click();
  assert.equal(await leave(), false, 'the form that is shown again with its input was not saved');
  assert.deepEqual(asked, ['beforeunload', 'beforeunload', 'beforeunload']);
});

test('on plain http, where browsers have no clipboard, the button copies nonetheless', needsChromium, async (t) => {
  const page = await enter(t, { permissions: ['clipboard-read'] });
  await page.addInitScript('Object.defineProperty(Navigator.prototype, "clipboard", { value: undefined })');
  await page.goto(examples);
  await page.evaluate('for (const one of document.querySelectorAll("details")) one.open = true');
  await page.getByRole('button', { name: 'Copy' }).first().click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
});

const focused = (page: Page): Promise<string> =>
  page.evaluate<string>('document.activeElement.name || document.activeElement.textContent.trim()');

test(
  'the slash goes to the search of the store and Escape back, and no shortcut takes a key from a field',
  needsChromium,
  async (t) => {
    const page = await enter(t);
    await page.goto(deliveries);
    await page.keyboard.press('j');
    const entry = await focused(page);
    await page.keyboard.press('/');
    assert.equal(await focused(page), 'q');
    await page.keyboard.type('j/?');
    assert.equal(await page.locator('[name=q]').inputValue(), 'j/?');
    await page.keyboard.press('Escape');
    assert.equal(await focused(page), entry);
  },
);

test('Escape closes a form, and the focus returns to its button', needsChromium, async (t) => {
  const page = await enter(t);
  await page.goto(`/webhooks/${orders}`);
  await page.getByRole('link', { name: 'Edit', exact: true }).click();
  await page.getByLabel('Name', { exact: true }).focus();
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('.panel:target').count(), 0);
  assert.equal(await focused(page), 'Edit');
});

test('a form shows only the events of the chosen resource', needsChromium, async (t) => {
  const page = await enter(t);
  await page.goto(`/webhooks/${orders}#change`);
  const boxes = page.locator('#change [name="events[]"]');
  const values = (of: typeof boxes) => of.evaluateAll((all) => all.map((box) => box.getAttribute('value') ?? ''));
  const shown = await values(boxes.filter({ visible: true }));
  assert.deepEqual(new Set(shown.map((name) => name.split('/', 1)[0])), new Set(['transaction']));
  await page.locator('#change [name=event_resource]').selectOption('customer');
  assert.ok((await values(boxes.filter({ visible: true }))).every((name) => name.startsWith('customer/')));
  assert.deepEqual(
    await values(page.locator('#change [name="events[]"]:checked')),
    [],
    'no event of another resource is sent',
  );
});

test('j and k go through the entries', needsChromium, async (t) => {
  const page = await enter(t);
  await page.goto(events);
  const titles = await page.locator('tbody tr a:first-of-type').allInnerTexts();
  assert.ok(titles.length > 1);
  for (const [key, at] of [
    ['j', 0],
    ['j', 1],
    ['k', 0],
    ['k', 0],
    ['Control+j', 0],
  ] as const) {
    await page.keyboard.press(key);
    assert.equal(await focused(page), titles[at], `${key} to ${at}`);
  }
  await page.goto(`/stores/${fixture.alpha}/changelogs`);
  await page.keyboard.press('j');
  assert.equal(await page.evaluate('document.activeElement.closest(".log > li") !== null'), true);
});

test('the question mark shows the shortcuts, which can be turned off', needsChromium, async (t) => {
  const page = await enter(t);
  await page.goto(deliveries);
  await page.keyboard.press('?');
  const dialog = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  await dialog.waitFor();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  await page.getByRole('button', { name: 'Keyboard shortcuts' }).click();
  await dialog.getByLabel('Use keyboard shortcuts').uncheck();
  await dialog.getByRole('button', { name: 'Close' }).click();
  await page.reload();
  await page.keyboard.press('j');
  assert.equal(await page.evaluate('document.activeElement === document.body'), true);
  await page.getByRole('button', { name: 'Keyboard shortcuts' }).click();
  assert.equal(await dialog.getByLabel('Use keyboard shortcuts').isChecked(), false);
});

test('without scripts there is nothing that needs one', needsChromium, async (t) => {
  const page = await enter(t, { javaScriptEnabled: false });
  await page.goto(examples);
  for (const needing of ['relative-time', '.copy', 'dialog']) assert.equal(await page.locator(needing).count(), 0);
  assert.equal(await page.getByRole('button', { name: 'Keyboard shortcuts' }).count(), 0);
  assert.equal((await page.locator('pre.copyable').count()) > 0, true);
});

test('scripts do not move what the reader already sees', needsChromium, async (t) => {
  const page = await enter(t);
  await page.clock.setFixedTime(NOW);
  for (const path of [deliveries, examples, `/stores/${fixture.alpha}/webhooks`]) {
    await page.goto(path);
    const shift = await page.evaluate<number>(`new Promise((resolve) => {
      let total = 0;
      new PerformanceObserver((list) => { for (const one of list.getEntries()) total += one.value; })
        .observe({ type: 'layout-shift', buffered: true });
      requestAnimationFrame(() => requestAnimationFrame(() => resolve(total)));
    })`);
    assert.equal(shift, 0, path);
  }
});

for (const [look, rules, options] of looks) {
  test(`axe finds no violation in what scripts add, ${look}`, needsChromium, async (t) => {
    const page = await enter(t, options);
    for (const path of [deliveries, examples]) {
      if (options.viewport) await page.setViewportSize(options.viewport);
      await page.goto(path);
      await page.evaluate('for (const one of document.querySelectorAll("details")) one.open = true');
      await assertAccessible(page, rules);
      await page.keyboard.press('?');
      await page.getByRole('dialog').waitFor();
      await assertAccessible(page, rules);
      await page.keyboard.press('Escape');
    }
  });
}

test('a list shows a new delivery by itself, keeps the focus, and is paused by a button', needsChromium, async (t) => {
  const page = await enter(t);
  await page.goto(deliveries);
  const pause = page.getByRole('button', { name: 'Pause' });
  await pause.waitFor();
  const entries = page.locator('.log > li');
  const before = await entries.count();
  await page.locator('.entry a').last().focus();
  const focusedHref = () => page.evaluate(`document.activeElement?.getAttribute('href')`);
  const reader = await focusedHref();
  assert.match(String(reader), /statuses/);
  const publish = async (id: number): Promise<void> => {
    const body = { event: 'transaction/created', resource: { id, total_order: 5 } };
    const { tokens, alpha } = fixture;
    assert.equal((await fixture.call('POST', `/stores/${alpha}/events`, { token: tokens.platform, body })).status, 201);
  };
  await publish(1901);
  await entries.nth(before).waitFor();
  assert.equal(await focusedHref(), reader);
  await pause.click();
  const resume = page.getByRole('button', { name: 'Resume' });
  await resume.waitFor();
  await publish(1902);
  // Another page, whose list is live, has shown it meanwhile.
  const other = await page.context().newPage();
  await other.goto(deliveries);
  await other
    .locator('.log > li')
    .nth(before + 1)
    .waitFor();
  await other.close();
  assert.equal(await entries.count(), before + 1);
  await resume.click();
  await entries.nth(before + 1).waitFor();
});

test('later pages of a list are not live', needsChromium, async (t) => {
  const page = await enter(t);
  await page.goto(`${deliveries}?limit=1&offset=1`);
  await page.locator('.log > li').first().waitFor();
  assert.equal(await page.getByRole('button', { name: 'Pause' }).count(), 0);
});
