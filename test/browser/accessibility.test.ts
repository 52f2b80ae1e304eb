/** axe on every page in light and dark and on a phone, and no page is wider than the narrowest screen. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { faultsIn } from '../setup/html-validator.ts';
import { assertAccessible, looks } from './page-checks.ts';
import { startScene, views } from './page-states.ts';

const scene = await startScene();
const browser = 'skip' in needsChromium ? undefined : await openBrowser();
after(() => browser?.close());

/** The first page of each view; the pages that follow the actions are validated by no test. */
for (const [name, who, address] of views) {
  test(`an independent validator accepts ${name}`, async () => {
    const cookies = who === 'public' ? [] : await scene.cookieOf(scene.emails[who]);
    const Cookie = cookies.map((cookie) => `${cookie.name}=${cookie.value}`).join('; ');
    const response = await fetch(scene.origin + address(scene), { headers: { Accept: 'text/html', Cookie } });
    assert.deepEqual(await faultsIn(await response.text()), []);
  });
}

for (const [look, rules, options] of looks) {
  for (const [name, who, address, act] of views) {
    test(`axe finds no violation: ${name}, ${look}`, needsChromium, async (t) => {
      assert.ok(browser !== undefined);
      const context = await browser.newContext({ ...options, baseURL: scene.origin });
      t.after(() => context.close());
      if (who !== 'public') await context.addCookies(await scene.cookieOf(scene.emails[who]));
      const page = await context.newPage();
      await page.goto(address(scene));
      await act?.(page);
      await assertAccessible(page, rules);
    });
  }
}
