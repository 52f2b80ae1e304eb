/**
 * The overview of a store and the page of a webhook, as a signed-in owner sees and uses them; /docs/receiving as an owner, an app and a stranger
 * see it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFiller, filled } from '../setup/form-filler.ts';
import { inhabit } from '../setup/populated-app.ts';
import { until } from '../setup/until.ts';

const fixture = await inhabit();
const { alpha, beta, call, webhooks } = fixture;
// The worker writes hourly statistics every few seconds.
await until(
  () => fixture.sql<{ isWhole: boolean }[]>`
    select (select sum(attempts) from webhook_hour) = (select count(*) from attempt_log where outcome is not null) as "isWhole"`,
  ([row]) => row?.isWhole === true,
);
const owner = createFiller(fixture.origin, fixture.browser);
const [orders, warehouse, automation] = webhooks.map((id) => `/webhooks/${id}`);
const overview = `/stores/${alpha}/overview`;

const pageAt = async (path: string): Promise<string> => {
  const response = await owner.show(path);
  assert.equal(response.status, 200);
  return response.text();
};
const mainIn = (page: string): string => /<main[^]*<\/main>/.exec(page)?.[0] ?? '';
const textIn = (page: string): string =>
  mainIn(page)
    .replaceAll(/<[^>]+>/g, ' ')
    .replaceAll(/\s+/g, ' ');

// The overview and the page of a webhook.

test('the overview begins with one sentence, then what needs attention, with its reason and its remedy', async () => {
  const page = await pageAt(overview);
  const text = textIn(page);
  assert.match(text, /^\s*1 of 3 webhooks needs attention\. Warehouse Failing Your endpoint answered 500/);
  assert.match(text, /Failing since 1 July 2026 at 10:00 UTC 1 delivery waits Next attempt 1 Jul 10:0\d UTC/);
  const remedy = /<li class="concern">[^]*?<a class="button" href="([^"]+)"/.exec(page)?.[1] ?? '';
  assert.match(textIn(await pageAt(remedy.replaceAll('&amp;', '&'))), /Transaction 1002 created Retrying/);
  assert.match(text, /Other webhooks .*Orders Delivering.* Automation Disabled/);
  assert.doesNotMatch(text, /breaker|probe|epoch/i);
});

test('the list of the webhooks has their states in the words of the overview', async () => {
  const text = textIn(await pageAt(`/stores/${alpha}/webhooks`));
  assert.match(text, /Orders Delivering JSON .* Warehouse Failing JSON .* Automation Disabled /);
});

test('the overview can be of 7 and 30 days, and shows which', async () => {
  for (const [period, label, chart] of [
    ['7d', '7 days', 'Attempts in the last 7 days'],
    ['30d', '30 days', 'Attempts in the last 30 days'],
  ] as const) {
    const address = `${overview}?period=${period}`;
    assert.ok((await pageAt(overview)).includes(`href="${address}"`));
    const page = await pageAt(address);
    assert.match(page, new RegExp(`href="${overview}\\?period=${period}"\\s+aria-current="page"\\s*>\\s*${label}`));
    assert.ok(textIn(page).includes(chart));
  }
});

test('a store without webhooks is invited to create one', async () => {
  const page = await pageAt(`/stores/${beta}/overview`);
  const target = /<a class="button" href="([^"]+)">Create a webhook</.exec(page)?.[1] ?? '';
  assert.match(await pageAt(target), /<details class="card" open>\s*<summary>Create a webhook/);
});

test('the page of a webhook has its numbers, its settings without those that are not set, and a form per action', async () => {
  const page = await pageAt(warehouse ?? '');
  const text = textIn(page);
  assert.match(text, /Warehouse Failing .*Failing since 1 Jul 10:00 UTC .*Pending 1 .*Next attempt 1 Jul 10:0\d UTC/);
  assert.match(text, /Failed attempts in the last 24 hours Reason Attempts Last Your endpoint answered 500/);
  assert.doesNotMatch(text, /Held|Not set|Inactive reason/);
  for (const id of ['test', 'change', 'rotate_key', 'recover', 'disable', 'delete'])
    assert.match(page, new RegExp(`href="#${id}"[^]*<section class="panel" id="${id}"`), id);
  assert.match(page, /href="#settings"[^]*id="settings"/);
  const retry = new RegExp(`action="${warehouse}/retry_pending"[^]*?<button[^>]*>\\s*Retry`);
  assert.match(page, retry, 'pending deliveries can be retried at once');
  assert.doesNotMatch(await pageAt(orders ?? ''), /retry_pending/, 'nothing is pending');
});

test('names are escaped, and a page without all properties is the generic one', async () => {
  const name = '<b>"x"</b> &amp;';
  await call('PATCH', automation ?? '', { body: { name } });
  for (const path of [overview, automation ?? '']) {
    const page = await pageAt(path);
    assert.ok(page.includes('&lt;b&gt;&quot;x&quot;&lt;/b&gt; &amp;amp;'), path);
    assert.ok(!page.includes('<b>'), path);
  }
  assert.doesNotMatch(await pageAt(`${automation}?fields=name,url`), /class="panel"/);
});

test('a rejected form is shown open with its errors and its input, on the same page', async () => {
  const form = filled(await owner.formFor(orders ?? '', 'PATCH'), { name: 'Typed', url: 'ftp://wrong' });
  const response = await owner.send(orders ?? '', form);
  assert.equal(response.status, 400);
  const page = await response.text();
  assert.match(page, /role="alert"[^]*URL must be[^]*<section class="panel open" id="change"[^]*value="Typed"/);
  assert.match(page, /<section class="panel" id="test"/, 'other forms stay closed');
});

/** Returns the form whose button has this text, as a browser would send it. */
function buttonForm(page: string, button: string): URLSearchParams {
  const forms = [...page.matchAll(/<form method="post"[^>]*>([^]*?)<\/form>/g)].map(([, inside = '']) => inside);
  const form = forms.find((inside) => new RegExp(`<button[^>]*>\\s*${button}\\s*</button>`).test(inside)) ?? '';
  const inputs = [...form.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)];
  return new URLSearchParams(inputs.map(([, name = '', value = '']) => [name, value]));
}
const settingsOf = async (path: string): Promise<Record<string, unknown>> => {
  const {
    state: _state,
    date_modified: _date,
    ...settings
  } = (await (await call('GET', path)).json()) as Record<string, unknown>;
  return settings;
};

test('a form that asks what it would do is refused where nothing can say so, and does nothing', async () => {
  const form = await owner.formFor(orders ?? '', 'DELETE');
  form.set('_preview', '1');
  assert.equal((await owner.send(orders ?? '', form)).status, 400);
  assert.equal((await call('GET', orders ?? '')).status, 200);
});

test('one button disables and enables the webhook, and changes nothing else', async () => {
  const path = orders ?? '';
  const before = await settingsOf(path);
  const disabled = await owner.send(path, buttonForm(await pageAt(path), 'Disable this webhook'));
  assert.equal(disabled.headers.get('location'), `${path}?done=changed`);
  assert.deepEqual(await settingsOf(path), { ...before, is_active: '0' });
  const page = await pageAt(path);
  assert.match(textIn(page), /Orders Disabled .*nothing is sent until you enable this webhook/);
  await owner.send(path, buttonForm(page, 'Enable'));
  assert.deepEqual(await settingsOf(path), before);
});

test('a rejected button opens the form with the current values', async () => {
  const path = warehouse ?? '';
  const form = buttonForm(await pageAt(path), 'Disable this webhook');
  form.set('is_active', 'perhaps');
  const page = await (await owner.send(path, form)).text();
  assert.match(page, /role="alert"[^]*Active[^]*<section class="panel open" id="change"[^]*value="Warehouse"/);
  const [, change = ''] = /id="change"[^>]*>([^]*?)<\/section>/.exec(page) ?? [];
  assert.match(change, /value="transaction\/created"\s+checked/);
});

// /docs/receiving: where an endpoint can be tested.

const stranger = createFiller(fixture.origin, { cookie: () => undefined });
const RECEIVING = '/docs/receiving';

const sectionIn = (page: string): string =>
  /<section class="card" id="test">[^]*?<\/section>\s*(?=<section class="card")/.exec(page)?.[0] ?? '';
const sectionFor = async ({ show }: typeof owner): Promise<string> => sectionIn(await (await show(RECEIVING)).text());
const formsIn = (section: string): string[] =>
  [...section.matchAll(/<form method="post" action="([^"]+)"/g)].map(([, action = '']) => action);

test('a person has a button for each webhook of their stores that can send a test delivery, and for no other', async () => {
  const section = await sectionFor(owner);
  const testable = await fixture.sql<{ id: number }[]>`
    select id from webhook where store_id = ${fixture.alpha} and url is not null and event_resource is not null order by id desc`;
  const foreign = await fixture.sql<{ id: number }[]>`select id from webhook where store_id <> ${fixture.alpha}`;
  assert.ok(testable.length > 1 && foreign.length > 0);
  assert.deepEqual(
    formsIn(section),
    testable.map(({ id }) => `/webhooks/${id}/test`),
  );
});

test('the button sends a test delivery, and leads to its page', async () => {
  const [action = ''] = formsIn(await sectionFor(owner));
  const form = await owner.formFor(RECEIVING, 'POST');
  const response = await owner.send(action, form);
  const location = response.headers.get('location') ?? '';
  assert.equal(response.status, 303);
  assert.match(location, new RegExp(`^${action.replace(/test$/, 'statuses/')}\\d+\\?`));
  assert.equal((await owner.show(location)).status, 200);
  form.set('nonce', 'another');
  assert.equal((await owner.send(action, form)).status, 403);
});

test('at most ten webhooks are listed, with a link to the others', async () => {
  for (let n = 0; n < 10; n += 1)
    await fixture.call('POST', `/stores/${fixture.alpha}/webhooks`, {
      token: fixture.tokens.store,
      body: {
        name: `More ${n}`,
        format: 'json',
        encryption_key: 'k',
        url: 'https://1.1.1.1/',
        event_resource: 'customer',
      },
    });
  const section = await sectionFor(owner);
  assert.equal(formsIn(section).length, 10);
  assert.ok(section.includes('href="/stores"'));
});

test('a person who is not signed in sees how to be', async () => {
  const section = await sectionFor(stranger);
  assert.deepEqual(formsIn(section), []);
  assert.ok(section.includes('href="/sign-in?return_to=%2Fdocs%2Freceiving"'), section);
});

test('the representation for an app names no webhook', async () => {
  const response = await fixture.call('GET', RECEIVING, { token: fixture.tokens.store });
  assert.equal(response.status, 200);
  assert.doesNotMatch(await response.text(), /\/webhooks\/\d/);
});
