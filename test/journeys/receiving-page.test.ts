/** /docs/receiving as a signed-in person, an app and a stranger see it: where an endpoint can be tested. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createFiller } from '../setup/form-filler.ts';
import { inhabit } from '../setup/populated-app.ts';

const fixture = await inhabit();
const owner = createFiller(fixture.origin, fixture.browser);
const stranger = createFiller(fixture.origin, { cookie: () => undefined });
const PAGE = '/docs/receiving';

const sectionIn = (page: string): string =>
  /<section class="card" id="test">[^]*?<\/section>\s*(?=<section class="card")/.exec(page)?.[0] ?? '';
const sectionFor = async ({ show }: typeof owner): Promise<string> => sectionIn(await (await show(PAGE)).text());
const formsIn = (section: string): string[] =>
  [...section.matchAll(/<form method="post" action="([^"]+)"/g)].map(([, action = '']) => action);

test('a person has a button for each webhook of their stores that can send a test delivery, and for no other', async () => {
  const section = await sectionFor(owner);
  const webhooks = await fixture.sql<{ id: number }[]>`
    select id from webhook where store_id = ${fixture.alpha} and url is not null and event_resource is not null order by id desc`;
  const foreign = await fixture.sql<{ id: number }[]>`select id from webhook where store_id <> ${fixture.alpha}`;
  assert.ok(webhooks.length > 1 && foreign.length > 0);
  assert.deepEqual(
    formsIn(section),
    webhooks.map(({ id }) => `/webhooks/${id}/test`),
  );
});

test('the button sends a test delivery, and leads to its page', async () => {
  const [action = ''] = formsIn(await sectionFor(owner));
  const form = await owner.formFor(PAGE, 'POST');
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
  const response = await fixture.call('GET', PAGE, { token: fixture.tokens.store });
  assert.equal(response.status, 200);
  assert.doesNotMatch(await response.text(), /\/webhooks\/\d/);
});
