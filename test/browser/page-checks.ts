/** The checks of a page: axe in light, in dark and on a phone; no page is wider than the narrowest screen, no table than a laptop's. */
import assert from 'node:assert/strict';
import { AxeBuilder } from '@axe-core/playwright';
import type { BrowserContextOptions, Page } from 'playwright-core';

const NARROWEST_PX = 320;
const LAPTOP_PX = 1280;
/** The tables that a person has to scroll sideways. */
const CLIPPED = `[...document.querySelectorAll('.table')]
  .filter((table) => table.scrollWidth > table.clientWidth)
  .map((table) => table.ariaLabel + ': ' + table.scrollWidth + ' of ' + table.clientWidth + ' px')`;

type Rules = NonNullable<Parameters<AxeBuilder['options']>[0]>;
const everything: Rules = { rules: { 'target-size': { enabled: true } } };
/** Dark is the same page in other colours: all other rules were checked in light. */
const colours: Rules = { runOnly: ['color-contrast'] };

export const looks: readonly (readonly [name: string, rules: Rules, options: BrowserContextOptions])[] = [
  ['light', everything, { colorScheme: 'light' }],
  ['dark', colours, { colorScheme: 'dark' }],
  ['on a phone', everything, { colorScheme: 'light', viewport: { width: 360, height: 740 } }],
];

export async function assertAccessible(page: Page, rules: Rules): Promise<void> {
  const { violations, passes } = await new AxeBuilder({ page }).options(rules).analyze();
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
  assert.deepEqual(found, []);
  assert.notEqual(passes.length, 0, 'axe checked the page');
  await page.setViewportSize({ width: NARROWEST_PX, height: 640 });
  assert.equal(await page.evaluate('document.documentElement.scrollWidth'), NARROWEST_PX);
  await page.setViewportSize({ width: LAPTOP_PX, height: 800 });
  assert.deepEqual(await page.evaluate(CLIPPED), []);
}
