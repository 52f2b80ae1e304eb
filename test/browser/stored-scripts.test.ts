/**
 * Texts of others that contain markup, in every field that a page shows: none becomes an element or runs, and all are shown as text. The
 * browser ignores the Content-Security-Policy, which would hide a missing escape.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { inhabit } from '../setup/populated-app.ts';
import { until } from '../setup/until.ts';

/** An element that no page has. */
const FOREIGN = 'foreign-element';
const CORPUS: readonly string[] = [
  `<${FOREIGN}></${FOREIGN}><script>ran()</script>`,
  `"><${FOREIGN} onfocus=ran() tabindex=0 autofocus>`,
  `'><img src=x onerror=ran()><svg onload=ran()>`,
  `</style></title></textarea></pre></option></select><${FOREIGN}>`,
  `--></script><iframe srcdoc="<script>parent.ran()</script>"></iframe>`,
  `" onmouseover="ran()" x="`,
  `&lt;${FOREIGN}&gt;&#60;script&#62;ran()`,
  '\u202Ejavascript:ran()',
];
/** The whole corpus after the name of its field; no page cuts it. */
const evil = (field: string): string => `${field} ${CORPUS.join(' ')}`;
/** Without characters that an e-mail address, a header or an id must not have. */
const brief = (field: string): string => `${field}"><${FOREIGN}/onclick=ran()><script>ran()</script>`;

const fixture = await inhabit({ isResolvable: true });
const browser = 'skip' in needsChromium ? undefined : await openBrowser();
after(() => browser?.close());
const { sql, alpha, call, receiver, tokens } = fixture;
const store = `/stores/${alpha}`;
const RESOURCE = brief('resource');

async function must(response: Promise<Response>): Promise<{ id: number }> {
  const { ok, status } = await response;
  const text = await (await response).text();
  assert.ok(ok, `${status} ${text}`);
  return JSON.parse(text) as { id: number };
}

const eventOf = (id: string) => ({
  event: 'transaction/created',
  resource: {
    id,
    note: evil('note'),
    [brief('name')]: evil('value'),
    _embedded: { 'svc:items': [{ name: evil('item') }] },
  },
});
const publish = (id: string) => must(call('POST', `${store}/events`, { token: tokens.platform, body: eventOf(id) }));

/** The endpoint answers with text at `/text`, and with JSON at other paths. */
receiver.answer(({ path }, response) => {
  const isText = path === '/text';
  const body = isText ? evil('answer') : JSON.stringify({ [brief('key')]: evil('answer') });
  response
    .writeHead(500, { 'Content-Type': isText ? 'text/html' : 'application/json', 'X-Evil': brief('header') })
    .end(body);
});

/** Fills the fields, and returns a delivery to each endpoint. */
async function fill(): Promise<{ webhook: number; delivery: number }[]> {
  await sql`update store set name = ${brief('store')} where id = ${alpha}`;
  await sql`update client set name = ${brief('app')}, company = ${brief('company')}, description = ${evil('description')},
    owner = case when trusted then null else ${fixture.adaId}::bigint end`;
  await sql`update users set email = ${`${brief('member')}@example.com`} where email = ${fixture.ada}`;
  const webhooks: number[] = [];
  for (const path of ['/text', '/json']) {
    const made = await must(
      call('POST', `${store}/webhooks`, {
        body: {
          name: brief('before'),
          format: 'json',
          query: 'zoom=items',
          url: `${receiver.url}${path}?x="><${FOREIGN}>`,
          event_resource: 'transaction',
          headers: { 'X-Evil': brief('own') },
          encryption_key: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
        },
      }),
    );
    await must(call('PATCH', `/webhooks/${made.id}`, { body: { name: brief('webhook') } }));
    webhooks.push(made.id);
  }
  await publish(RESOURCE);
  const attempts = await until(
    () => sql<{ webhook: number; delivery: number }[]>`
      select webhook_id as webhook, delivery_id as delivery from attempt_log where webhook_id = any(${webhooks}::bigint[])
      order by webhook_id, delivery_id`,
    ({ length }) => length === webhooks.length,
  );
  return [...attempts];
}

const unfold = (page: Page): Promise<unknown> =>
  page.evaluate('for (const one of document.querySelectorAll("details")) one.open = true');

/** Asserts that nothing ran and nothing became an element, and that the page shows these fields as text. */
async function assertText(page: Page, fields: readonly string[], what: string): Promise<void> {
  assert.equal(await page.evaluate('globalThis.hasRun'), false, `${what}: a script ran`);
  const made = await page.evaluate(
    `[...document.querySelectorAll('${FOREIGN}, iframe, svg[onload], img[onerror], [onfocus], [onmouseover], [onclick], [href^="javascript:" i]')].map((one) => one.outerHTML)`,
  );
  assert.deepEqual(made, [], `${what}: markup became an element`);
  const text = await page.evaluate<string>(
    'document.body.innerText + [...document.querySelectorAll("input, textarea")].map((one) => one.value).join()',
  );
  for (const field of fields) assert.ok(text.includes(field), `${what} does not show ${field}`);
}

test('markup in texts of others is shown as text on every page', needsChromium, async (t) => {
  assert.ok(browser !== undefined);
  const deliveries = await fill();
  const [{ webhook, delivery } = { webhook: 0, delivery: 0 }, other] = deliveries;
  const part = {
    since: '2020-01-01',
    only_failed: '1',
    resource_id: brief('recovered'),
    response_body: evil('wanted'),
  };
  const recovery = await must(call('POST', `/webhooks/${webhook}/recover`, { body: part }));
  const searched = new URLSearchParams({ status: 'failed', response_body: `*${brief('searched')}*` }).toString();
  const shown = (field: string): string => `${field}"><${FOREIGN}`;
  const PAGES: readonly (readonly [path: string, fields: readonly string[]])[] = [
    ['/stores', [shown('store')]],
    [store, [shown('store')]],
    [`${store}/overview`, [shown('webhook')]],
    [`${store}/webhooks`, [shown('webhook')]],
    [`${store}/statuses`, [shown('resource'), shown('webhook')]],
    [`${store}/statuses?resource_id=${encodeURIComponent(RESOURCE)}`, [RESOURCE]],
    [`${store}/statuses?resource_id=${encodeURIComponent(evil('search'))}`, [`search <${FOREIGN}>`]],
    [`${store}/statuses?${encodeURIComponent(brief('unknown'))}=1`, []],
    [`${store}/events`, [shown('resource')]],
    [`${store}/members`, [shown('member')]],
    [`${store}/changelogs`, [shown('member'), shown('app'), shown('before')]],
    [`/webhooks/${webhook}`, [shown('webhook'), shown('own')]],
    [`/webhooks/${webhook}/logs`, [shown('resource')]],
    [`/webhooks/${webhook}/recoveries`, [shown('recovered')]],
    [`/webhooks/${webhook}/recoveries/${recovery.id}`, [shown('recovered'), `wanted <${FOREIGN}>`]],
    [`/webhooks/${webhook}/statuses?${searched}`, [shown('searched')]],
    [`${store}/invitations`, []],
    [`/webhooks/${webhook}/statuses`, [shown('webhook'), shown('resource')]],
    [`/webhooks/${webhook}/statuses/${delivery}`, [RESOURCE, 'answer <', 'note <', shown('header')]],
    [`/webhooks/${other?.webhook}/statuses/${other?.delivery}`, ['key\\"><', 'answer <', 'item <']],
    ['/account', [shown('member'), shown('app'), shown('company')]],
    ['/account/clients', [shown('app')]],
    [`/account/clients/${fixture.client.client_id}`, [shown('app'), shown('store'), shown('webhook')]],
    [
      `/authorize?${new URLSearchParams(fixture.asking()).toString()}`,
      [shown('app'), shown('company'), shown('store')],
    ],
  ];
  const context = await browser.newContext({ baseURL: fixture.origin, bypassCSP: true });
  t.after(() => context.close());
  await context.addCookies([...fixture.browser.jar].map(([name, value]) => ({ name, value, url: fixture.origin })));
  await context.addInitScript('globalThis.hasRun = false; globalThis.ran = () => { globalThis.hasRun = true; }');
  const page = await context.newPage();
  for (const [path, fields] of PAGES) {
    await t.test(path.replace(/\?.*/, '?…'), async () => {
      await page.goto(path);
      await unfold(page);
      await page.evaluate('for (const one of document.querySelectorAll("a, button, summary, input")) one.focus()');
      await assertText(page, fields, path);
    });
  }
  await t.test('a live list that is renewed', async () => {
    await page.goto(`${store}/statuses`);
    await publish(brief('later'));
    await page.getByText(shown('later')).first().waitFor();
    await assertText(page, [shown('later')], 'the renewed list');
  });
});

test('the browser would run the scripts of the corpus', needsChromium, async (t) => {
  assert.ok(browser !== undefined);
  const page = await browser.newPage();
  t.after(() => page.close());
  for (const [at, text] of CORPUS.entries()) {
    await page.setContent(
      `<script>globalThis.hasRun = false; globalThis.ran = () => { globalThis.hasRun = true; }</script>${text}`,
    );
    const isInert = (await page.evaluate(`document.querySelector('${FOREIGN}, svg, iframe')`)) === null;
    t.diagnostic(`${at}: ${isInert ? 'needs a place in an attribute' : 'becomes an element'}`);
  }
  await page.setContent(
    `<script>globalThis.hasRun = false; globalThis.ran = () => { globalThis.hasRun = true; }</script>${CORPUS[0]}`,
  );
  assert.equal(await page.evaluate('globalThis.hasRun'), true);
  await assert.rejects(assertText(page, [], 'an unescaped text'));
});
