/** The health of webhooks, as a store owner sees it: in light and dark and on a phone. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { inhabit } from '../setup/populated-app.ts';
import { passDay } from '../setup/last-day-statistics.ts';
import { assertAccessible, looks } from './page-checks.ts';

const fixture = await inhabit({ isResolvable: true });
const browser = 'skip' in needsChromium ? undefined : await openBrowser();
after(() => browser?.close());

/** The folder for pictures, to look at them; none unless it is set. */
const PICTURES = process.env['PICTURES'];

await passDay(fixture);

const pages = [
  { name: 'overview', path: `/stores/${fixture.alpha}/overview`, of: 'Success trend' },
  { name: 'health', path: `/webhooks/${fixture.webhooks[1]}/health`, of: 'Success trend' },
  { name: 'webhook', path: `/webhooks/${fixture.webhooks[1]}` },
  { name: 'store', path: `/stores/${fixture.alpha}` },
] as const;

for (const [look, rules, options] of looks) {
  test(`the charts of webhooks are visible and readable by a screen reader ${look}`, needsChromium, async (t) => {
    assert.ok(browser !== undefined);
    const context = await browser.newContext(options);
    t.after(() => context.close());
    await context.addCookies([...fixture.browser.jar].map(([name, value]) => ({ name, value, url: fixture.origin })));
    const page = await context.newPage();
    for (const { name: called, path, ...trend } of pages) {
      await page.goto(fixture.origin + path);
      const chart = page.getByRole('img', { name: 'Attempts in the last 24 hours' });
      assert.equal(await chart.count(), 1, called);
      assert.ok((await chart.locator('.bar.bad').boundingBox())?.height, `${called}: failures are drawn`);
      assert.match((await chart.locator('desc').textContent()) ?? '', /failed, \d+ of them in the hour from/);
      if ('of' in trend) {
        const line = page.getByRole('img', { name: `${trend.of}: Between 0 % (` }).first();
        assert.ok((await line.boundingBox())?.width, `${called}: the trend is drawn`);
      }
      if (PICTURES !== undefined)
        await page.screenshot({ path: `${PICTURES}/${called}-${look.replaceAll(' ', '-')}.png`, fullPage: true });
    }
    for (const { path } of pages) {
      await page.goto(fixture.origin + path);
      await assertAccessible(page, rules);
      if (options.viewport) await page.setViewportSize(options.viewport);
    }
  });
}

test('an open overview and an open webhook show what happens without being loaded again', needsChromium, async (t) => {
  assert.ok(browser !== undefined);
  const context = await browser.newContext();
  t.after(() => context.close());
  await context.addCookies([...fixture.browser.jar].map(([name, value]) => ({ name, value, url: fixture.origin })));
  const [overview, webhook] = [await context.newPage(), await context.newPage()];
  await overview.goto(`${fixture.origin}/stores/${fixture.alpha}/overview`);
  await webhook.goto(`${fixture.origin}/webhooks/${fixture.webhooks[0]}`);
  const rows = overview.getByRole('row').filter({ hasText: 'Orders' });
  assert.equal(await rows.filter({ hasText: 'Disabled' }).count(), 0);
  for (const page of [overview, webhook]) await page.getByText('Live: changes appear here.').waitFor();
  // Pages that are not in front have no stream.
  const changed = await fixture.call('PATCH', `/webhooks/${fixture.webhooks[0]}`, { body: { is_active: false } });
  assert.equal(changed.status, 200);
  await overview.bringToFront();
  await rows.filter({ hasText: 'Disabled' }).waitFor();
  await webhook.bringToFront();
  await webhook.locator('.title').getByText('Disabled').waitFor();
});
