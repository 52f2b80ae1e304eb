/**
 * The pictures of the documents: `npm run screenshots` writes docs/screenshots/ again. Look at each picture after a change of
 * its page. Time stands still in the fixture, so only changed pages differ.
 */
import assert from 'node:assert/strict';
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { BrowserContextOptions } from 'playwright-core';
import { openBrowser } from '../setup/chromium.ts';
import { inhabit } from '../setup/populated-app.ts';
import { passDay } from '../setup/last-day-statistics.ts';

const FOLDER = join(import.meta.dirname, '../../docs/screenshots');
const PICTURE_BYTES_MAX = 150 * 1024;

const light: BrowserContextOptions = { viewport: { width: 1280, height: 800 }, colorScheme: 'light' };
const tall: BrowserContextOptions = { ...light, viewport: { width: 1280, height: 1120 } };
const dark: BrowserContextOptions = { ...light, colorScheme: 'dark' };
const phone: BrowserContextOptions = { viewport: { width: 390, height: 844 }, colorScheme: 'light' };

const fixture = await inhabit({ isResolvable: true });
await passDay(fixture);
await fixture.sql`update store set name = 'Corner Shop' where id = ${fixture.alpha}`;
await mkdir(FOLDER, { recursive: true });
const browser = await openBrowser();
after(() => browser.close());

const [orders, warehouse] = fixture.webhooks;
const [failing] = await fixture.sql<{ id: number }[]>`
  select delivery_id as id from attempt_log where webhook_id = ${warehouse ?? 0} limit 1`;
const overview = `/stores/${fixture.alpha}/overview`;
const delivery = `/webhooks/${warehouse}/statuses/${failing?.id}`;

// oxfmt-ignore
const PICTURES: readonly (readonly [name: string, path: string, look: BrowserContextOptions])[] = [
  ['overview',         overview,                                       tall],
  ['overview-dark',    overview,                                       dark],
  ['overview-phone',   overview,                                       phone],
  ['webhook',          `/webhooks/${warehouse}`,                       light],
  ['delivery',         delivery,                                       light],
  ['delivery-phone',   delivery,                                       phone],
  ['deliveries',       `/webhooks/${warehouse}/statuses`,              light],
  ['deliveries-phone', `/webhooks/${warehouse}/statuses`,              phone],
  ['search',           `/webhooks/${orders}/statuses?status=successful`, light],
  ['changelog',        `/stores/${fixture.alpha}/changelogs`,            light],
  ['changelog-dark',   `/stores/${fixture.alpha}/changelogs`,            dark],
  ['members-dark',     `/stores/${fixture.alpha}/members`,               dark],
];

for (const [name, path, look] of PICTURES) {
  test(`the picture ${name}`, async (t) => {
    const context = await browser.newContext({ ...look, baseURL: fixture.origin });
    t.after(() => context.close());
    await context.addCookies(
      [...fixture.browser.jar].map(([called, value]) => ({ name: called, value, url: fixture.origin })),
    );
    const page = await context.newPage();
    const response = await page.goto(path);
    assert.equal(response?.status(), 200);
    const file = join(FOLDER, `${name}.png`);
    await page.screenshot({ path: file });
    assert.ok((await stat(file)).size <= PICTURE_BYTES_MAX, `${name} is larger than ${PICTURE_BYTES_MAX} bytes`);
  });
}
