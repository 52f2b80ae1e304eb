/** The page of the changelog, as members of the store, apps and strangers see it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBrowser } from '../security/oauth-server.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { createFiller, filled, HTML } from '../setup/form-filler.ts';

const people = await startWithPeople();
const { call, alpha, bobId, ada, bob, store, platformToken } = people;
const owner = createFiller(people.origin, people.browser);
const PATH = `/stores/${alpha}/changelogs`;
const [WEBHOOKS, MEMBERS] = [`/stores/${alpha}/webhooks`, `/stores/${alpha}/members`];
const NAME = 'Orders <b &amp; "x';

const form = filled(await owner.formFor(WEBHOOKS, 'POST'), { name: NAME, format: 'json' });
const created = await owner.send(WEBHOOKS, form);
const webhook = (created.headers.get('location') ?? '').split('?', 1)[0] ?? '';
await owner.send(webhook, filled(await owner.formFor(webhook, 'PATCH'), { is_active: '0' }));
const byApp = { name: 'By an app', format: 'json', encryption_key: 'a key' };
assert.equal((await call('POST', WEBHOOKS, { token: store, body: byApp })).status, 201);
for (const role of ['member', 'owner'])
  await call('POST', MEMBERS, { token: platformToken, body: { user: bobId, role } });
await call('DELETE', `${MEMBERS}/${bobId}`, { token: platformToken });

/** Returns the sentences of a page, with entities as in the HTML. */
function sentencesIn(page: string): string[] {
  const list = [...page.matchAll(/<ol class="log">([^]*?)<\/ol>/g)].map(([, inside = '']) => inside).join('');
  return [...list.matchAll(/<div>\s*<p>([^]*?)<\/p>/g)].map(([, inside = '']) =>
    inside
      .replaceAll(/<[^>]*>/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .trim(),
  );
}
async function read(query = '', by = owner): Promise<string[]> {
  const response = await by.show(PATH + query);
  assert.equal(response.status, 200);
  return sentencesIn(await response.text());
}
const WRITTEN_NAME = 'Orders &lt;b &amp;amp; &quot;x';

test('the newest change is first, with names in place of ids, and names are escaped', async () => {
  const sentences = await read();
  assert.deepEqual(sentences.slice(0, 5), [
    `The platform removed former member ${bobId} from the store`,
    `The platform added former member ${bobId} as member`,
    `Mailer, for ${ada}, created the webhook By an app`,
    `${ada} disabled the webhook ${WRITTEN_NAME}`,
    `${ada} created the webhook ${WRITTEN_NAME}`,
  ]);
  const page = await (await owner.show(PATH)).text();
  assert.ok(page.includes(`<a href="${webhook}">${WRITTEN_NAME}</a>`), 'the webhook is linked');
});

test('the form filters by kind, person and app, and keeps other parameters', async () => {
  assert.ok((await read('?resource=member')).every((sentence) => sentence.includes(`former member ${bobId}`)));
  const page = await (await owner.show(`${PATH}?limit=5&action=created`)).text();
  assert.match(page, /<input type="hidden" name="limit" value="5"/);
  const [, adaId = ''] = new RegExp(`<option value="(\\d+)" *>${ada}</option>`).exec(page) ?? [];
  assert.ok((await read(`?user=${adaId}&resource=webhook`)).length >= 3);
  const [, clientId = ''] = /<option value="([^"]+)" *>Mailer<\/option>/.exec(page) ?? [];
  assert.deepEqual(await read(`?client=${clientId}&resource=webhook`), [
    `Mailer, for ${ada}, created the webhook By an app`,
  ]);
  // As a browser sends the form: with empty fields.
  const sent = await owner.show(`${PATH}?_search=UTC&resource=member&user=&client=`);
  assert.equal(sent.headers.get('location'), `${PATH}?resource=member`);
});

test('a former member is not named, and neither are strangers', async () => {
  const page = await (await owner.show(`${PATH}?limit=300`)).text();
  assert.equal(page.includes(bob), false);
});

test('an app, and a program that asks for HTML, get the generic page without e-mail addresses', async () => {
  const response = await fetch(people.origin + PATH, { headers: { ...HTML, Authorization: `Bearer ${store}` } });
  const page = await response.text();
  assert.equal(response.status, 200);
  assert.equal(sentencesIn(page).length, 0);
  assert.doesNotMatch(page, new RegExp(ada));
});

test('a member of another store cannot open the page', async () => {
  const browser = createBrowser(people.origin);
  await browser.signIn(bob);
  assert.equal((await createFiller(people.origin, browser).show(PATH)).status, 404);
});

test('a page without the properties of a sentence, and an empty one, are generic', async () => {
  for (const query of [
    '?fields=id',
    '?fields=id,resource,resource_id,action,actor,after,date_created',
    '?resource=nothing',
  ]) {
    const response = await owner.show(PATH + query);
    assert.equal(response.status, 200);
    assert.equal(sentencesIn(await response.text()).length, 0);
  }
});

test('every page of the store leads to the changelog', async () => {
  for (const path of [WEBHOOKS, MEMBERS, webhook]) {
    const page = await (await owner.show(path)).text();
    assert.ok(page.includes(`<a href="${PATH}"`), path);
  }
  assert.match(await (await owner.show(PATH)).text(), new RegExp(`<a href="${PATH}" aria-current="page"`));
});
