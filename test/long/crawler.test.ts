/** From home, by links alone: every resource is found, no link is broken, and each relation is documented. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inhabit } from '../setup/populated-app.ts';
import { until } from '../setup/until.ts';
import { actionsIn, fill, type SirenAction } from '../representations/crawl/actions.ts';
import { readers, type Reader } from '../representations/crawl/readers.ts';
import { walk, type Met } from '../representations/crawl/walk.ts';

const fixture = await inhabit();
const session = { headers: { Cookie: fixture.browser.cookie() ?? '' } };
const callerOf = (reader: Reader) => (reader.name === 'HTML' ? session : {});
const [hal, , siren] = readers;
assert.ok(hal !== undefined && siren !== undefined);

const met = new Map<string, Met>();
const metIn = (reader: Reader): Met =>
  met.get(reader.name) ?? { pages: new Map(), rels: new Set(), contradictions: [] };

for (const reader of readers) {
  test(`${reader.name}: every link from home has a target`, async () => {
    met.set(reader.name, await walk(fixture, reader, callerOf(reader)));
  });
}

for (const [who, token] of Object.entries({ user: fixture.tokens.user, platform: fixture.tokens.platform })) {
  test(`every link visible to the token of a ${who} has a target`, async () => {
    met.set(who, await walk(fixture, hal, { token }));
  });
}

test('every response is as /openapi.json describes it', () => {
  assert.ok(met.size > readers.length, [...met.keys()].join());
  assert.deepEqual(
    [...met.values()].flatMap(({ contradictions }) => contradictions),
    [],
  );
});

const EXPECTED = [
  /^\/stores\/\d+$/,
  /^\/stores\/\d+\/webhooks$/,
  /^\/webhooks\/\d+$/,
  /^\/webhooks\/\d+\/statuses$/,
  /^\/webhooks\/\d+\/logs$/,
  /^\/stores\/\d+\/members$/,
  /^\/stores\/\d+\/events$/,
  /^\/stores\/\d+\/events\/\d+$/,
  /^\/stores\/\d+\/events\/\d+\/payload$/,
  /^\/stores\/\d+\/events\/\d+\/statuses$/,
  ...['transactions', 'subscriptions', 'customers', 'transaction_logs', 'changelogs', 'subscription_events'].map(
    (name) => new RegExp(`^/stores/\\d+/${name}$`),
  ),
  /^\/stores\/\d+\/subscription_mrr_snapshots$/,
  /^\/stores\/\d+\/transactions\/1002$/,
  /^\/stores\/\d+\/transactions\/1002\/items$/,
];
for (const reader of readers) {
  test(`${reader.name}: every resource of the API can be reached`, () => {
    const pages = [...metIn(reader).pages.keys()];
    for (const pattern of EXPECTED)
      assert.ok(
        pages.some((page) => pattern.test(page)),
        String(pattern),
      );
  });
}

test('every relation in use is documented, for people and for programs', async () => {
  const rels = [...met.values()].reduce((all, { rels: some }) => all.union(some), new Set<string>());
  const registered = new Set(['self', 'first', 'prev', 'next', 'last', 'curies']);
  const ownRels = [...rels].filter((rel) => !registered.has(rel));
  assert.ok(ownRels.length > 30, ownRels.join());
  for (const rel of ownRels) {
    for (const accept of ['text/html', 'application/hal+json']) {
      const response = await fetch(`${fixture.origin}/rels/${rel}`, { headers: { Accept: accept } });
      assert.equal(response.status, 200, `/rels/${rel}`);
      await response.arrayBuffer();
    }
  }
});

/**
 * The hidden fields of the form for an action, which prove that a page of this session sent it; undefined if the page does not
 * offer the action, because it is impossible at present.
 */
async function hiddenFields(path: string, { name, method }: SirenAction): Promise<Record<string, string> | undefined> {
  // An action with its own address is on the page of the resource above.
  const page = path.endsWith(`/${name}`) ? path.slice(0, -name.length - 1) : path;
  const text = await (await fixture.call('GET', page, { accept: 'text/html', ...session })).text();
  const forms = [...text.matchAll(/<form method="post" action="([^"]*)"[^>]*>([^]*?)<\/form>/g)];
  for (const [, action, inside = ''] of forms) {
    const hidden = Object.fromEntries(
      [...inside.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)].map(([, field, value]) => [
        field,
        value,
      ]),
    ) as Record<string, string>;
    if (action === path && (hidden['_method'] ?? 'POST') === method) return hidden;
  }
  return undefined;
}

/** Sends the action as a client of the format would, and returns the status and the location. */
async function act(reader: Reader, action: SirenAction, all: boolean) {
  const path = new URL(action.href, fixture.origin).pathname;
  const values = fill(action, all);
  const isForm = reader.name === 'HTML';
  const hidden = isForm ? await hiddenFields(path, action) : {};
  if (hidden === undefined) return { status: 409, location: null, says: `No form for ${action.method} on ${path}` };
  const body = { ...values, ...hidden };
  const hasBody = isForm || action.fields !== undefined;
  const response = await fixture.call(isForm ? 'POST' : action.method, path, {
    accept: reader.accept,
    ...(hasBody && { body: reader.bodyOf(body) }),
    headers: {
      ...(hasBody && { 'Content-Type': reader.contentType }),
      ...(isForm && { ...session.headers, 'Sec-Fetch-Site': 'same-origin' }),
    },
  });
  const text = await response.text();
  const says = `${reader.name}: ${action.method} ${path} with ${JSON.stringify(values)}: ${response.status} ${text.slice(0, 400)}`;
  return { status: response.status, location: response.headers.get('location'), says };
}

const actionsAt = async (path: string): Promise<readonly SirenAction[]> =>
  actionsIn(await (await fixture.call('GET', path, { accept: siren.accept })).text());

/** Actions with their own address, below the resource. */
const isActionRoute = ({ href, name }: SirenAction): boolean => href.endsWith(`/${name}`);

/** Lets the endpoint of a webhook fail, after any change by another format, and returns the actions of a pending delivery. */
async function actionsOfPending(): Promise<readonly SirenAction[]> {
  const webhook = `/webhooks/${fixture.webhooks[1]}`;
  const settings = { url: `${fixture.receiver.url}/fails`, is_active: '1', event_resource: 'transaction', events: [] };
  assert.equal((await fixture.call('PATCH', webhook, { body: settings })).status, 200);
  const event = { event: 'transaction/created', resource: { id: 1900, total_order: 5 } };
  const published = { token: fixture.tokens.platform, body: event };
  assert.equal((await fixture.call('POST', `/stores/${fixture.alpha}/events`, published)).status, 201);
  const pending = `${webhook}/statuses?status=pending`;
  const { entities } = await until(
    async () =>
      (await (await fixture.call('GET', pending, { accept: siren?.accept ?? '' })).json()) as {
        entities?: readonly { links?: readonly { rel: readonly string[]; href: string }[] }[];
      },
    (page) => (page.entities ?? []).length > 0,
  );
  const self = entities?.[0]?.links?.find(({ rel }) => rel.includes('self'))?.href ?? '';
  return actionsAt(readAgain(self));
}

const readAgain = (path: string) => new URL(path, fixture.origin).pathname;

for (const reader of readers) {
  test(`${reader.name}: every action accepts values for its fields`, async () => {
    const pages = [...metIn(siren).pages].filter(([href]) => !href.includes('?'));
    const crawled = pages.flatMap(([, text]) => (text.startsWith('{') ? actionsIn(text) : []));
    const found = [...(await actionsOfPending()), ...crawled.filter(({ name }) => name !== 'retry')];
    // First the actions below a resource: a change may remove their preconditions.
    const todo = [...found.filter(isActionRoute), ...found.filter((action) => !isActionRoute(action))];
    assert.ok(todo.some(({ method }) => method === 'POST') && todo.some(({ method }) => method === 'PATCH'));
    const made: string[] = [];
    const done = new Set<string>();
    for (const action of todo.filter(
      ({ method }) => method !== 'DELETE' && (reader.name !== 'HTML' || method !== 'PUT'),
    )) {
      for (const all of [false, true]) {
        // An empty change is no change.
        if (action.method === 'PATCH' && !all) continue;
        const { status, location, says } = await act(reader, action, all);
        // An action below a resource may be impossible at present: without a url, or without a recipient.
        const isHindered = status === 409 && isActionRoute(action);
        assert.ok([200, 201, 202, 303].includes(status) || isHindered, says);
        if (!isHindered) done.add(action.name);
        if (action.name === 'create' && location !== null) made.push(readAgain(location));
      }
    }
    const left = [...new Set(todo.map(({ name }) => name))].filter((name) => !done.has(name));
    assert.deepEqual(left.toSorted(), reader.name === 'HTML' ? ['delete', 'replace'] : ['delete']);
    assert.ok(made.length > 0);
    for (const path of made) {
      for (const action of (await actionsAt(path)).filter(({ method }) => method === 'DELETE')) {
        const { status, says } = await act(reader, action, true);
        assert.ok(status === 204 || status === 303, says);
        assert.equal((await fixture.call('GET', path)).status, 404, says);
      }
    }
  });
}
