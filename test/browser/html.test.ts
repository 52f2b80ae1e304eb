/** The pages of documents in a real browser: axe in light, dark and on a phone, and the content of submitted forms. */
import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { formValue } from '#hypermedia/html/form.ts';
import { renderHtml } from '#hypermedia/html/document-page.ts';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { naming, STORED_KEY, webhook } from '../setup/documents.ts';
import { changeable, list, NEW_KEY, owner, pages, refused } from '../setup/pages.ts';
import { assertAccessible, looks } from './page-checks.ts';

const browser = 'skip' in needsChromium ? undefined : await openBrowser();
after(() => browser?.close());

async function open(t: TestContext, html: string, options: BrowserContextOptions = {}): Promise<Page> {
  assert.ok(browser !== undefined);
  const context = await browser.newContext(options);
  t.after(() => context.close());
  const page = await context.newPage();
  await page.setContent(html);
  return page;
}

const unfold = (page: Page): Promise<unknown> =>
  page.evaluate('for (const one of document.querySelectorAll("details")) one.open = true');

for (const [look, rules, options] of looks) {
  for (const [name, html] of pages) {
    test(`axe finds no violation: ${name}, ${look}`, needsChromium, async (t) => {
      const page = await open(t, html, options);
      await unfold(page);
      await assertAccessible(page, rules);
    });
  }
}

/** The body that a browser would send for the form with this button, line ends as they are typed. */
async function sentBy(page: Page, button: string): Promise<Record<string, string[]>> {
  const find = `[...document.querySelectorAll('button')].find((one) => one.textContent.trim() === '${button}')`;
  const entries = await page.evaluate<[string, string][]>(`[...new FormData(${find}.form)]`);
  const sent: Record<string, string[]> = {};
  for (const [name, value] of entries) (sent[name.replace('[]', '')] ??= []).push(value);
  return sent;
}

test('an unchanged form sends its values, and no secret', needsChromium, async (t) => {
  const document = changeable(webhook(0));
  const sent = await sentBy(await open(t, renderHtml(document, naming, owner)), 'Save');
  const [change] = document.actions ?? [];
  assert.ok(change !== undefined);
  const stands = change.fields
    .map(({ name, value, kind }) => [name, kind === 'secret' ? [''] : [formValue(value)].flat()] as const)
    .filter(([, values]) => values.length > 0);
  assert.equal(sent['events']?.length, 2);
  assert.match(sent['headers']?.[0] ?? '', /\n/);
  const own = { nonce: ['nonce-of-change'], _method: ['PATCH'], _version: ['7'] };
  assert.deepEqual(sent, { ...own, ...Object.fromEntries(stands) });
});

test('a rejected form sends again all that was typed, but no key', needsChromium, async (t) => {
  const sent = await sentBy(await open(t, renderHtml(list, naming, refused)), 'Create a webhook');
  const { values } = refused.refused;
  assert.deepEqual(sent, { nonce: ['nonce-of-create'], _key: ['once'], ...values, encryption_key: [''] });
});

test('a new webhook has a generated key', needsChromium, async (t) => {
  const sent = await sentBy(await open(t, renderHtml(list, naming, owner)), 'Create a webhook');
  assert.deepEqual([sent['encryption_key'], sent['is_active']], [[NEW_KEY], ['1']]);
});

test('an error at the top links to its field', needsChromium, async (t) => {
  const page = await open(t, renderHtml(list, naming, refused));
  await page.getByRole('alert').getByRole('link', { name: 'Rate per second must be a number' }).click();
  assert.equal(await page.evaluate('document.querySelector(":target").name'), 'rate_per_second');
});

test('without JavaScript a secret is shown on request, and only then', needsChromium, async (t) => {
  const page = await open(t, renderHtml(webhook(0), naming), { javaScriptEnabled: false });
  const secret = page.getByText(STORED_KEY);
  assert.equal(await secret.isVisible(), false);
  await page.getByText('Show', { exact: true }).click();
  assert.equal(await secret.isVisible(), true);
  await page.getByText('Hide', { exact: true }).click();
  assert.equal(await secret.isVisible(), false);
});

test('a badge has an icon that a browser draws, and its text is the word alone', needsChromium, async (t) => {
  const page = await open(t, renderHtml(webhook(0), naming));
  const badge = page.locator('.badge').first();
  assert.match(await badge.innerText(), /^\w+$/);
  const drawn = await page.evaluate<{ clipPath: string; width: string; isTextColor: boolean }>(`(() => {
    const badge = document.querySelector('.badge');
    const { clipPath, width, backgroundColor } = getComputedStyle(badge, '::before');
    return { clipPath, width, isTextColor: backgroundColor === getComputedStyle(badge).color };
  })()`);
  assert.match(drawn.clipPath, /^path\("M/);
  assert.deepEqual([drawn.width, drawn.isTextColor], ['16px', true]);
});
