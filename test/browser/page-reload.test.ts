/** A waiting page reloads itself, without JavaScript, until its work has ended or the user stops it. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { needsChromium, openBrowser } from '../setup/chromium.ts';

// This process has no worker, so the recovery waits.
const people = await startWithPeople();
const browser = 'skip' in needsChromium ? undefined : await openBrowser();
after(() => browser?.close());

const json = async (method: string, path: string, body: unknown): Promise<number> =>
  Number((await people.call(method, path, { token: people.store, body })).body['id']);

const webhook = await json('POST', `/stores/${people.alpha}/webhooks`, {
  name: 'Slow',
  format: 'partner_automation',
  url: 'https://receiver.example.com/',
  event_resource: 'transaction',
});
const recovery = await json('POST', `/webhooks/${webhook}/recover`, { since: '2026-06-30' });
const key = { shard: shardOf(webhook), id: recovery };

const comeTo = (seen: number, state: 'running' | 'finished') => people.sql`
  update recovery set state = ${state}, until_event_id = 1, events_total = 10000, events_seen = ${seen}, date_ended = ${state === 'finished' ? new Date() : null}
  where shard = ${key.shard} and id = ${key.id}`;

test('the page of a recovery updates its progress by itself, and stops at its end', needsChromium, async (t) => {
  assert.ok(browser !== undefined);
  const context = await browser.newContext({ javaScriptEnabled: false });
  t.after(() => context.close());
  await context.addCookies([...people.browser.jar].map(([name, value]) => ({ name, value, url: people.origin })));
  const page = await context.newPage();
  const address = `${people.origin}/webhooks/${webhook}/recoveries/${recovery}`;
  await comeTo(0, 'running');
  const response = await page.goto(`${address}?done=begun`);
  assert.equal(response?.headers()['refresh'], `3; url=${new URL(address).pathname}`);
  await page.getByText('Started.').waitFor();
  await page.getByText('This page reloads every 3 seconds.').waitFor();
  await comeTo(1_204, 'running');
  await page.getByText('1,204 of 10,000').waitFor();
  assert.equal(await page.getByRole('progressbar', { name: 'Events seen' }).getAttribute('value'), '1204');
  assert.equal(await page.getByText('Started.').count(), 0, 'the confirmation is shown once');

  await page.getByRole('link', { name: 'Stop reloading' }).click();
  await page.getByText('Automatic reload is off.').waitFor();
  assert.equal((await page.reload())?.headers()['refresh'], undefined);
  await page.getByRole('link', { name: 'Reload every 3 seconds' }).click();
  await comeTo(10_000, 'finished');
  await page.locator('.badge', { hasText: 'Finished' }).waitFor();
  assert.equal((await page.reload())?.headers()['refresh'], undefined);
});

test('a program gets the progress as a number, and no redirect', async () => {
  await comeTo(1_204, 'running');
  const { body, headers } = await people.call('GET', `/webhooks/${webhook}/recoveries/${recovery}`, {
    token: people.store,
  });
  assert.deepEqual([body['events_seen'], body['events_total']], [1_204, 10_000]);
  assert.equal(headers.get('refresh'), null);
});
