/** The page of something that waits renews itself until its work has ended. */
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

test(
  'the script updates the page of a recovery without loading it again, and shows its end',
  needsChromium,
  async (t) => {
    assert.ok(browser !== undefined);
    const context = await browser.newContext();
    t.after(() => context.close());
    await context.addCookies([...people.browser.jar].map(([name, value]) => ({ name, value, url: people.origin })));
    const page = await context.newPage();
    await comeTo(0, 'running');
    await page.goto(`${people.origin}/webhooks/${webhook}/recoveries/${recovery}?done=begun`);
    await page.getByText('Live: changes appear here.').waitFor();
    await page.evaluate('window.isSame = true');
    await comeTo(1_204, 'running');
    await page.getByText('1,204 of 10,000 events checked').waitFor();
    assert.equal(await page.evaluate('window.isSame'), true);
    await page.getByText('Started.').waitFor();
    await comeTo(10_000, 'finished');
    await page.locator('.badge', { hasText: 'Finished' }).waitFor();
    await page.getByText('Live: changes appear here.').waitFor({ state: 'detached' });
    assert.equal(await page.getByText('Started.').count(), 0, 'the confirmation is shown once');
  },
);

test('a program gets the progress as a number', async () => {
  await comeTo(1_204, 'running');
  const { body } = await people.call('GET', `/webhooks/${webhook}/recoveries/${recovery}`, {
    token: people.store,
  });
  assert.deepEqual([body['events_seen'], body['events_total']], [1_204, 10_000]);
});
