/**
 * The pictures of the documents: `npm run screenshots` writes docs/screenshots/ again. Look at each picture after a change of
 * its page. Time stands still in the fixture, so only changed pages differ.
 */
import assert from 'node:assert/strict';
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { BrowserContextOptions } from 'playwright-core';
import { addMember } from '#stores/store.ts';
import { openBrowser } from '../setup/chromium.ts';
import { inhabit } from '../setup/populated-app.ts';
import { passDay } from '../setup/last-day-statistics.ts';

const FOLDER = join(import.meta.dirname, '../../docs/screenshots');
const PICTURE_BYTES_MAX = 150 * 1024;

const light: BrowserContextOptions = { viewport: { width: 1280, height: 800 }, colorScheme: 'light' };
const tall: BrowserContextOptions = { ...light, viewport: { width: 1280, height: 1120 } };
const dark: BrowserContextOptions = { ...light, colorScheme: 'dark' };
const phone: BrowserContextOptions = { viewport: { width: 390, height: 844 }, colorScheme: 'light' };
/** Is not signed in. */
const stranger: BrowserContextOptions = { ...phone };

const fixture = await inhabit({ isResolvable: true });
await passDay(fixture);
await fixture.sql`update store set name = 'Corner Shop' where id = ${fixture.alpha}`;
await addMember(fixture.sql, { storeId: fixture.alpha, userId: fixture.bobId, role: 'member', now: fixture.now() });
/** The token of an invitation for anyone, and a mailed invitation. */
const TOKEN = `hal_in_${'A'.repeat(43)}`;
const shard = fixture.alpha % 256;
await fixture.sql`
  insert into invitation (shard, id, store_id, hash, mailed_hash, email, role, date_created, date_expires)
  select ${shard}, n * 256 + ${shard}, ${fixture.alpha}, sha256(token::bytea), mailed, email, role, ${fixture.now()},
    ${fixture.now()}::timestamptz + interval '72 h'
  from (values (5000000, ${TOKEN}, null, null, 'member'), (5000001, 'x', sha256('y'), 'grace@example.com', 'owner'))
    as i (n, token, mailed, email, role)`;
await mkdir(FOLDER, { recursive: true });
const browser = await openBrowser();
after(() => browser.close());

const [orders, warehouse] = fixture.webhooks;
const [failing] = await fixture.sql<{ id: number }[]>`
  select delivery_id as id from attempt_log where webhook_id = ${warehouse ?? 0} limit 1`;
const overview = `/stores/${fixture.alpha}/overview`;
const delivery = `/webhooks/${warehouse}/statuses/${failing?.id}`;

// oxfmt-ignore
const PICTURES: readonly (readonly [name: string, path: string, look: BrowserContextOptions, who?: 'stranger'])[] = [
  ['front',            '/',                                            light, 'stranger'],
  ['front-dark',       '/',                                            dark,  'stranger'],
  ['front-phone',      '/',                                            phone, 'stranger'],
  ['overview',         overview,                                       tall],
  ['overview-dark',    overview,                                       dark],
  ['overview-phone',   overview,                                       phone],
  ['webhook',          `/webhooks/${warehouse}`,                       light],
  ['webhook-dark',     `/webhooks/${warehouse}`,                       dark],
  ['webhook-phone',    `/webhooks/${warehouse}`,                       phone],
  ['webhook-form',     `/webhooks/${orders}#rotate_key`,               dark],
  ['delivery',         delivery,                                       light],
  ['delivery-phone',   delivery,                                       phone],
  ['deliveries',       `/webhooks/${warehouse}/statuses`,              light],
  ['deliveries-phone', `/webhooks/${warehouse}/statuses`,              phone],
  ['deliveries-dark',  `/webhooks/${warehouse}/statuses`,              dark],
  ['store-deliveries', `/stores/${fixture.alpha}/statuses`,            light],
  ['store-deliveries-phone', `/stores/${fixture.alpha}/statuses`,      phone],
  ['events',           `/stores/${fixture.alpha}/events`,              light],
  ['events-phone',     `/stores/${fixture.alpha}/events`,              phone],
  ['search',           `/webhooks/${orders}/statuses?status=successful`, light],
  ['changelog',        `/stores/${fixture.alpha}/changelogs`,            light],
  ['changelog-dark',   `/stores/${fixture.alpha}/changelogs`,            dark],
  ['changelog-phone',  `/stores/${fixture.alpha}/changelogs`,            phone],
  ['members',          `/stores/${fixture.alpha}/members`,               light],
  ['members-dark',     `/stores/${fixture.alpha}/members`,               dark],
  ['members-phone',    `/stores/${fixture.alpha}/members`,               phone],
  ['invitation',       `/invitations/${TOKEN}`,                          stranger],
  ['apps',             '/account',                                       tall],
  ['apps-dark',        '/account',                                       dark],
  ['apps-phone',       '/account#connected',                             phone],
  ['delivery-dark',    delivery,                                         dark],
];

for (const [name, path, look, who] of PICTURES) {
  test(`the picture ${name}`, async (t) => {
    const context = await browser.newContext({ ...look, baseURL: fixture.origin });
    t.after(() => context.close());
    const cookies = [...fixture.browser.jar].map(([called, value]) => ({ name: called, value, url: fixture.origin }));
    if (who === undefined && look !== stranger) await context.addCookies(cookies);
    const page = await context.newPage();
    const response = await page.goto(path);
    assert.equal(response?.status(), 200);
    // The port of the fixture differs in each run.
    const example = page.locator('pre', { hasText: fixture.origin });
    if (who === 'stranger')
      await example.evaluate(
        (pre) => (pre.textContent = (pre.textContent ?? '').replace(/http:\S+/, 'https://api.example.com/')),
      );
    const file = join(FOLDER, `${name}.png`);
    await page.screenshot({ path: file });
    assert.ok((await stat(file)).size <= PICTURE_BYTES_MAX, `${name} is larger than ${PICTURE_BYTES_MAX} bytes`);
  });
}
