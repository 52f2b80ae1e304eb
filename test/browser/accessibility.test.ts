/** axe on every page in light and dark and on a phone, and no page is wider than the narrowest screen. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { AxeBuilder } from '@axe-core/playwright';
import type { BrowserContextOptions } from 'playwright-core';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { startScene, views } from './scene.ts';

const NARROWEST_PX = 320;

type Rules = NonNullable<Parameters<AxeBuilder['options']>[0]>;
const everything: Rules = { rules: { 'target-size': { enabled: true } } };
/** Dark is the same page in other colours: everything else was asked in light. */
const colours: Rules = { runOnly: ['color-contrast'] };

const looks: readonly (readonly [name: string, rules: Rules, options: BrowserContextOptions])[] = [
  ['light', everything, { colorScheme: 'light' }],
  ['dark', colours, { colorScheme: 'dark' }],
  ['on a phone', everything, { colorScheme: 'light', viewport: { width: 360, height: 740 } }],
];

const scene = await startScene();
const browser = 'skip' in needsChromium ? undefined : await openBrowser();
after(() => browser?.close());

for (const [look, rules, options] of looks) {
  for (const [name, who, address, act] of views) {
    test(`axe finds nothing: ${name}, ${look}`, needsChromium, async (t) => {
      assert.ok(browser !== undefined);
      const context = await browser.newContext({ ...options, baseURL: scene.origin });
      t.after(() => context.close());
      if (who !== 'nobody') await context.addCookies(await scene.cookieOf(scene.emails[who]));
      const page = await context.newPage();
      await page.goto(address(scene));
      await act?.(page);
      const { violations, passes } = await new AxeBuilder({ page }).options(rules).analyze();
      const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
      assert.deepEqual(found, []);
      assert.notEqual(passes.length, 0, 'axe looked at something');
      await page.setViewportSize({ width: NARROWEST_PX, height: 640 });
      assert.equal(await page.evaluate('document.documentElement.scrollWidth'), NARROWEST_PX);
    });
  }
}
