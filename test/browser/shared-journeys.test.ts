/**
 * Tasks of an operator, and of an owner among several, each with its number of steps: a change that makes a task longer fails here.
 * docs/measurements/dashboard.md has the numbers.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { addMember } from '#stores/store.ts';
import { openConsole, suspending } from '../security/operators.ts';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { inhabit } from '../setup/populated-app.ts';
import { signInCounted, type Effort, type Person } from './counted-person.ts';

const server = await inhabit({ isResolvable: true });
const { origin, alpha, sql } = server;
await addMember(sql, { storeId: alpha, userId: server.bobId, role: 'owner', now: server.now() });
const { operator, factor } = await suspending(server);
await openConsole(operator, factor);
const cookies = [...operator.jar].map(([name, value]) => ({ name, value, url: origin }));
const browser = 'skip' in needsChromium ? undefined : await openBrowser();
after(() => browser?.close());

type Task = { as: Parameters<typeof signInCounted>[1]['as']; allowed: Omit<Effort, 'seconds'> };

function task(name: string, { as, allowed }: Task, act: (person: Person) => Promise<void>): void {
  test(name, needsChromium, async (t) => {
    assert.ok(browser !== undefined);
    const person = await signInCounted(browser, { origin, as });
    t.after(() => person.close());
    await act(person);
    const { seconds, ...steps } = person.effort();
    t.diagnostic(`${name}: ${JSON.stringify(steps)}, ${seconds.toFixed(2)} s`);
    assert.deepEqual(steps, allowed);
  });
}

const AT_CONSOLE = { cookies, at: '/operator' };
const OWNER = { cookies, at: `/stores/${alpha}/overview` };

task(
  'an operator finds the store that fails most, and suspends the app',
  { as: AT_CONSOLE, allowed: { clicks: 3, texts: 1, keys: 0 } },
  async (person) => {
    const { page } = person;
    const worst = page.getByRole('region', { name: 'What fails now' }).locator('tbody tr').first();
    await person.click(worst.getByRole('rowheader').getByRole('link'));
    await person.click(page.locator('tr', { hasText: 'Failing' }).getByRole('link', { name: 'Mailer' }));
    await person.type(page.getByLabel('Reason'), 'Its endpoint is not repaired');
    await person.click(page.getByRole('button', { name: 'Suspend Mailer' }));
    await page.getByRole('heading', { name: 'Suspended' }).waitFor();
  },
);

task('the same by keyboard', { as: AT_CONSOLE, allowed: { clicks: 0, texts: 0, keys: 30 } }, async (person) => {
  const { page } = person;
  await person.tabTo(/^Apps$/);
  await Promise.all([page.waitForURL(/\/apps$/), person.press('Enter')]);
  await person.tabTo(/^Mailer$/);
  await Promise.all([page.waitForURL(/\/apps\/\w+$/), person.press('Enter')]);
  await person.tabTo(/^End the suspension of Mailer$/);
  await person.press('Enter');
  await page.getByRole('heading', { name: 'Suspend', exact: true }).waitFor();
});

task("an owner ends another member's app", { as: OWNER, allowed: { clicks: 3, texts: 0, keys: 0 } }, async (person) => {
  const { page } = person;
  await person.click(page.getByRole('link', { name: 'Apps', exact: true }));
  const other = page.locator('.entries > li', { has: page.getByRole('link', { name: 'Other', exact: true }) });
  assert.match(await other.innerText(), /Connected by\s+ada@example\.com/);
  await person.click(other.getByText('Disconnect …'));
  await person.click(other.getByRole('button', { name: 'Disconnect Other of ada@example.com' }));
  await page.getByText('App disconnected: its tokens no longer work').waitFor();
});
