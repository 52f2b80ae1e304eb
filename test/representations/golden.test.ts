/**
 * Resources in every format. Reviewed are HAL and a few pages, in test/representations/golden/; XML, Siren and the other pages are
 * compared with HAL. Wording is separate from structure, in api.words.golden and pages.words.golden, so that a changed sentence
 * changes one line of one file. After an intended change `UPDATE_GOLDEN=1` with the command for one file rewrites the golden
 * files; review the difference before you commit it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { assertGolden, assertSameLines, openGoldenParts, ownLines } from '../setup/golden.ts';
import { faultsIn } from '../setup/html-validator.ts';
import { inhabit } from '../setup/populated-app.ts';
import { IS_DIVIDED } from '../setup/suite-handle.ts';
import { until } from '../setup/until.ts';
import { sirenAndHal, xmlAndHal } from './round-trip.ts';
import { missingInPage } from './page-content.ts';
import { outlineOf, readSiren } from './siren-outline.ts';

const formats = {
  hal: 'application/hal+json',
  xml: 'application/hal+xml',
  siren: 'application/vnd.siren+json',
  html: 'text/html',
} as const;

const COUNTED_FROM = 100_000_000_000_000;

const fixture = await inhabit();
const { alpha, beta, adaId, webhooks, events, tokens } = fixture;
const [grants] = await fixture.sql<{ id: number }[]>`select min(id) as id from access_grant where user_id = ${adaId}`;
const [entry] = await fixture.sql<{ id: string }[]>`
  select id from resource where type = 'changelog' and store_id = ${alpha} order by event_id desc limit 1`;

// Without an entry of the changelog.
const invitation = 5_000_000 * 256 + (alpha % 256);
await fixture.sql`
  insert into invitation
    (shard, id, store_id, hash, mailed_hash, email, role, created_by, date_created, date_expires)
  values (${alpha % 256}, ${invitation}, ${alpha}, sha256('link'), sha256('mailed'), 'grace@example.com', 'member', ${adaId},
    '2026-07-01T10:00:00Z', '2026-07-04T10:00:00Z')`;

await fixture.sql`
  insert into awaited_member (shard, store_id, issuer, subject, role, date_created)
  values (${alpha % 256}, ${alpha}, 'https://id.example.com', '4711', 'owner', '2026-07-01T10:00:00Z')`;

/** The one delivery of each of the first two webhooks: a successful and a pending one. */
async function deliveryTo(webhook: number | undefined): Promise<string> {
  const [row] = await fixture.sql<{ id: number }[]>`
    select delivery_id as id from attempt_log where webhook_id = ${webhook ?? 0} order by date_started, delivery_id limit 1`;
  return `/webhooks/${webhook}/statuses/${row?.id}`;
}
const [arrived, pending] = [await deliveryTo(webhooks[0]), await deliveryTo(webhooks[1])];

// Attempts are added to their hour every few seconds, with their duration: here all have the same.
await until(
  () => fixture.sql<{ isWhole: boolean }[]>`
    select (select sum(attempts) from webhook_hour) = (select count(*) from attempt_log where outcome is not null) as "isWhole"`,
  ([row]) => row?.isWhole === true,
);
await fixture.sql`update webhook_hour set durations = array[0, attempts, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]`;

// A block of ids that has become too old leaves the rest of its numbers out: golden files count the events of each store instead.
const written = await fixture.sql<{ id: number }[]>`select id from event order by shard, id`;
const countedAs = new Map(written.map(({ id }, index) => [String(id), String(COUNTED_FROM + index)]));

type Asked = { path: string; method?: string; token?: string | null; body?: unknown };

const resources: Readonly<Record<string, Asked>> = {
  'home-without-token': { path: '/', token: null },
  home: { path: '/' },
  'home-of-user': { path: '/', token: tokens.user },
  'home-of-platform': { path: '/', token: tokens.platform },
  receiving: { path: '/docs/receiving' },
  'event-types': { path: '/docs/events' },
  'event-type': { path: '/docs/events/subscription_mrr_snapshot/created' },
  user: { path: `/users/${adaId}`, token: tokens.user },
  users: { path: '/users', token: tokens.platform },
  'clients-of-user': { path: `/users/${adaId}/clients`, token: tokens.user },
  'grants-of-user': { path: `/users/${adaId}/grants`, token: tokens.user },
  grant: { path: `/grants/${grants?.id}`, token: tokens.user },
  'grants-of-store': { path: `/stores/${alpha}/grants` },
  'grant-of-store': { path: `/stores/${alpha}/members/${adaId}/grants/${grants?.id}` },
  clients: { path: '/clients', token: tokens.platform },
  client: { path: `/clients/${fixture.client.client_id}`, token: tokens.platform },
  'client-of-another-owner': { path: `/clients/${fixture.other.client_id}`, token: tokens.platform },
  'client-of-platform': { path: `/clients/${fixture.platform.client_id}`, token: tokens.platform },
  installs: { path: `/clients/${fixture.client.client_id}/installs`, token: tokens.platform },
  stores: { path: '/stores', token: tokens.user },
  store: { path: `/stores/${alpha}` },
  'store-of-user': { path: `/stores/${beta}`, token: tokens.user },
  members: { path: `/stores/${alpha}/members` },
  member: { path: `/stores/${alpha}/members/${adaId}` },
  'members-awaited': { path: `/stores/${alpha}/awaited_members`, token: tokens.platform },
  invitations: { path: `/stores/${alpha}/invitations`, token: tokens.platform },
  invitation: { path: `/stores/${alpha}/invitations/${invitation}`, token: tokens.platform },
  overview: { path: `/stores/${alpha}/overview` },
  webhooks: { path: `/stores/${alpha}/webhooks` },
  'webhooks-page': { path: `/stores/${alpha}/webhooks?limit=1&offset=1&order=name desc&fields=name,url` },
  'webhooks-none': { path: `/stores/${beta}/webhooks`, token: tokens.user },
  webhook: { path: `/webhooks/${webhooks[0]}` },
  'webhook-failing': { path: `/webhooks/${webhooks[1]}` },
  'webhook-of-automation': { path: `/webhooks/${webhooks[2]}` },
  health: { path: `/webhooks/${webhooks[0]}/health` },
  'health-of-a-failing-webhook': { path: `/webhooks/${webhooks[1]}/health` },
  'webhook-of-another-app': { path: `/webhooks/${webhooks[0]}`, token: tokens.neighbour },
  statuses: { path: `/webhooks/${webhooks[0]}/statuses` },
  status: { path: arrived },
  'status-pending': { path: pending },
  'status-of-another-app': { path: arrived, token: tokens.neighbour },
  logs: { path: `/webhooks/${webhooks[1]}/logs` },
  recoveries: { path: `/webhooks/${webhooks[0]}/recoveries` },
  recovery: { path: `/webhooks/${webhooks[0]}/recoveries/${fixture.recovery}` },
  events: { path: `/stores/${alpha}/events` },
  event: { path: `/stores/${alpha}/events/${events[1]}` },
  'event-statuses': { path: `/stores/${alpha}/events/${events[1]}/statuses` },
  payload: { path: `/stores/${alpha}/events/${events[1]}/payload?zoom=items:item_options,customer` },
  transactions: { path: `/stores/${alpha}/transactions` },
  transaction: { path: `/stores/${alpha}/transactions/1002` },
  'transaction-zoomed': { path: `/stores/${alpha}/transactions/1002?zoom=items:item_options,customer,payments` },
  'transaction-items': { path: `/stores/${alpha}/transactions/1002/items?zoom=item_options` },
  'transaction-customer': { path: `/stores/${alpha}/transactions/1002/customer` },
  subscriptions: { path: `/stores/${alpha}/subscriptions` },
  subscription: { path: `/stores/${alpha}/subscriptions/1003` },
  customers: { path: `/stores/${alpha}/customers?zoom=attributes` },
  customer: { path: `/stores/${alpha}/customers/1001` },
  'customer-for-platform': { path: `/stores/${alpha}/customers/1001`, token: tokens.platform },
  transaction_logs: { path: `/stores/${alpha}/transaction_logs` },
  transaction_log: { path: `/stores/${alpha}/transaction_logs/log-1` },
  changelogs: { path: `/stores/${alpha}/changelogs` },
  changelog: { path: `/stores/${alpha}/changelogs/${entry?.id}` },
  subscription_events: { path: `/stores/${alpha}/subscription_events` },
  subscription_mrr_snapshots: { path: `/stores/${alpha}/subscription_mrr_snapshots` },
  'options-of-webhooks': { path: `/stores/${alpha}/webhooks`, method: 'OPTIONS' },
  'error-of-validation': {
    path: `/stores/${alpha}/webhooks`,
    method: 'POST',
    body: { format: 'fax', url: 'x', colour: 1 },
  },
  'error-not-found': { path: '/webhooks/256' },
  'error-of-scope': { path: '/users' },
  'error-of-query': { path: `/stores/${alpha}/webhooks?limit=0&order=colour&x=1` },
};

/** Values that differ from run to run become placeholders. */
const settled = (text: string): string =>
  text
    .replaceAll(fixture.receiver.url, 'http://receiver.example.test')
    .replaceAll(fixture.client.client_id, 'CLIENT_MAILER')
    .replaceAll(fixture.other.client_id, 'CLIENT_OTHER')
    .replaceAll(fixture.platform.client_id, 'CLIENT_PLATFORM')
    .replaceAll(/\b\d{15}\b/g, (id) => countedAs.get(id) ?? id)
    .replaceAll(/id-[\w-]{12}/g, 'id-LOGREF')
    .replaceAll(/("duration":|<duration>|<dt>Duration<\/dt>\s*<dd[^>]*>)\d+/g, '$10')
    .replaceAll(/>\d+ ms</g, '>0 ms<')
    // The number that occurs only once, and signed values.
    .replaceAll(/msg_[a-z0-9_]+/g, 'msg_ONCE')
    .replaceAll(/v1,[\w+/]{43}=/g, 'v1,SIGNATURE')
    // A retry is delayed by up to a fifth, at random.
    .replaceAll(/2026-07-01T10:01:\d\d/g, '2026-07-01T10:01:00')
    .replaceAll(/\bin [12] min\b/g, 'in 2 min')
    .replaceAll(/(name="(?:nonce|_key)" value=")[^"]*/g, '$1NONCE')
    .replaceAll(/whsec_(?!MfKQ)[\w+/=]+/g, 'whsec_MADE_UP')
    .replaceAll(/<style>[^]*?<\/style>/g, '<style>…</style>')
    .replaceAll(/\/assets\/[0-9a-f]{16}\.js/g, '/assets/HASH.js');

const session = { Cookie: fixture.browser.cookie() ?? '' };

/** Each database counts its own ids. */
const comparable = (text: string): string => (IS_DIVIDED ? text.replaceAll(/\d+/g, '0') : text);

/** Two words with a blank between them that are not a list of identifiers such as a scope. */
const isWording = (text: string): boolean =>
  /\p{L}[\p{L},;:.’']* [“(]?\p{L}/u.test(text) && !/^[a-z_\d ]+_[a-z_\d ]*$/.test(text);

type Take = (text: string) => string;

function withoutWordingInJson(value: unknown, take: Take): unknown {
  if (typeof value === 'string') return take(value);
  if (Array.isArray(value)) return value.map((item) => withoutWordingInJson(item, take));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withoutWordingInJson(item, take)]));
}

const withoutWordingInMarkup = (markup: string, take: Take): string =>
  markup
    .replaceAll(/(?<=>)[^<>]+(?=<)/g, (text) => take(text))
    .replaceAll(/(?<= (?:title|aria-label|alt|placeholder|content)=")[^"]+(?=")/g, (text) => take(text));

const LINE_LENGTH = 150;

/** A link of HAL, which is one line of the golden file as its relation is one member of the resource. */
const LINK = /\{\n *"href": "[^{}[\]]*\}/g;

/** Returns the page with each tag, and each short row, bar and choice, on one line, as a reader of the golden file needs it. */
const arrange = (page: string): string =>
  page
    .replaceAll(/<[^>]+>/g, (tag) => tag.replaceAll(/\s+/g, ' '))
    .replaceAll(/\n\s*\n/g, '\n')
    .replaceAll(/(\n *)?<(tr|rect|label)\b[^]*?<\/\2>/g, (element, start = '\n') => {
      const line = element.trim().replaceAll(/\s*\n\s*/g, ' ');
      return start + (line.length > LINE_LENGTH ? element.trim() : line);
    });

/** Returns the page without the spacing that a browser does not show. */
const withoutSpacing = (page: string): string =>
  page
    .split(/(<(?:pre|textarea)\b[^]*?<\/(?:pre|textarea)>)/)
    .map((part, index) => (index % 2 === 1 ? part : arrange(part)))
    .join('');

async function answerApart({ path, method = 'GET', token, body: sent }: Asked, accept: string) {
  const isSessions =
    accept === 'text/html' && method === 'GET' && token !== tokens.platform && token !== tokens.neighbour;
  const response = await fixture.call(method, path, {
    accept,
    ...(typeof token === 'string' && { token }),
    ...(sent !== undefined && { body: sent }),
    headers: {
      ...(isSessions && (token === null ? { Cookie: '-' } : session)),
      ...(token === null && { 'SERVICE-API-VERSION': '1' }),
      ...(token === null && accept !== 'text/html' && { Cookie: '-' }),
    },
  });
  const words: string[] = [];
  const take: Take = (text) => {
    if (!isWording(text)) return text;
    words.push(text.trim().replaceAll(/\s+/g, ' '));
    return '…';
  };
  const [type, link] = ['content-type', 'link'].map((name) => response.headers.get(name));
  const head = { status: response.status, link: settled(link ?? '') };
  const top = [`${response.status} ${type}`, ...(typeof link === 'string' ? [`Link: ${head.link}`] : [])].join('\n');
  const body = await response.text();
  const text = settled(body);
  let structure = accept.endsWith('json')
    ? JSON.stringify(withoutWordingInJson(JSON.parse(text), take), null, 2)
    : // A new field moves the numbers of all fields after it.
      withoutWordingInMarkup(text, take).replaceAll(/\bform-(\d+)-\d+/g, 'form-$1-n');
  if (accept === formats.html) structure = withoutSpacing(structure);
  if (accept === formats.hal) {
    const short = settled(JSON.stringify(await withoutCopies(JSON.parse(body) as Hal, token), withoutCuries));
    structure = JSON.stringify(
      withoutWordingInJson(JSON.parse(short), (one) => (isWording(one) ? '…' : one)),
      null,
      2,
    ).replaceAll(LINK, (one) => one.replaceAll(/\s*\n\s*/g, ' '));
  }
  return { head, type, text, structure: `${withoutWordingInMarkup(top, take)}\n\n${structure}\n`, words };
}

/** A resource as another caller sees it, or in another state: its golden text is the lines that differ from those of this one. */
const VARIANTS: Readonly<Record<string, string>> = {
  'client-of-another-owner': 'client',
  'client-of-platform': 'client',
  'store-of-user': 'store',
  'webhook-failing': 'webhook',
  'webhook-of-automation': 'webhook',
  'webhook-of-another-app': 'webhook',
  'status-of-another-app': 'status',
  'customer-for-platform': 'customer',
};

type Hal = { _links?: { self?: { href?: string } }; _embedded?: Record<string, Hal | Hal[]> };

const isObject = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === 'object' && !Array.isArray(value);

/** Returns the members that `value` has in another way than `base`, and under `-` the names of those that it lacks. */
function changesOf(value: Record<string, unknown>, base: Record<string, unknown>): Record<string, unknown> {
  const changed = Object.entries(value).flatMap(([name, one]) => {
    const before = base[name];
    if (isDeepStrictEqual(one, before)) return [];
    return [[name, isObject(one) && isObject(before) ? changesOf(one, before) : one]];
  });
  const missing = Object.keys(base).filter((name) => !(name in value));
  return { ...Object.fromEntries(changed), ...(missing.length > 0 && { '-': missing }) };
}

/** Leaves of each item of a list what differs from the item before it. */
function withoutRepeats(items: readonly unknown[]): unknown[] {
  return items.map((item, index) => {
    const before = items[index - 1];
    return isObject(item) && isObject(before) ? { '=': 'previous', ...changesOf(item, before) } : item;
  });
}

/** The curies of every resource, which its golden text names only. */
const CURIES = [{ name: 'svc', href: 'http://auth.example.test/rels/{rel}', templated: true }];

const withoutCuries = (name: string, value: unknown): unknown =>
  name === 'curies' && isDeepStrictEqual(value, CURIES) ? 'svc' : value;

/** Replaces each embedded resource that is the same at its own address by that address. */
async function withoutCopies(document: Hal, token: Asked['token']): Promise<unknown> {
  const { _embedded: embedded } = document;
  if (embedded === undefined) return document;
  const shortened = async (item: Hal): Promise<unknown> => {
    const href = item._links?.self?.href;
    if (href === undefined || href.startsWith('#')) return withoutCopies(item, token);
    const response = await fixture.call('GET', href, {
      accept: formats.hal,
      ...(typeof token === 'string' && { token }),
    });
    const own: unknown = response.status === 200 ? await response.json() : await response.text();
    return isDeepStrictEqual(own, item) ? `= ${href}` : withoutCopies(item, token);
  };
  const entries = Object.entries(embedded).map(async ([rel, items]) => [
    rel,
    Array.isArray(items) ? withoutRepeats(await Promise.all(items.map(shortened))) : await shortened(items),
  ]);
  return { ...document, _embedded: Object.fromEntries(await Promise.all(entries)) as unknown };
}

const answers = new Map<string, ReturnType<typeof answerApart>>();

/** Returns the response, its structure with an ellipsis for each piece of wording, and the wording in document order. */
function answerIn(name: string, asked: Asked, accept: string): ReturnType<typeof answerApart> {
  const key = `${name} ${accept}`;
  const answered = answers.get(key) ?? answerApart(asked, accept);
  answers.set(key, answered);
  return answered;
}

/** Designed pages, and one generic page with embedded resources. */
const REVIEWED_PAGES: ReadonlySet<string> = new Set([
  'overview',
  'webhooks',
  'webhook',
  'health-of-a-failing-webhook',
  'statuses',
  'status',
  'event',
  'members',
  'recovery',
  'error-of-validation',
  'transaction-zoomed',
]);

/** Properties that a designed page omits, or shows in other words. */
const NOT_SHOWN: Readonly<Record<string, readonly string[]>> = {
  receiving: ['retry_seconds'],
  'status-pending': ['webhook_id', 'status', 'reason', 'waits_for', 'id', 'body_length'],
  'status-of-another-app': ['id'],
  'webhook-of-automation': ['state'],
  recovery: ['webhook_id', 'only_failed', 'loaded', 'events_recovered'],
  changelogs: ['id', 'resource_id', 'resource', 'action'],
  grant: ['id', 'client_id', 'is_verified', 'scope', 'store_id'],
  'grants-of-store': ['id', 'client_id', 'is_verified', 'scope', 'store_id'],
  'grant-of-store': ['id', 'client_id', 'is_verified', 'scope', 'store_id', 'webhooks_total'],
  'error-not-found': ['total'],
  'error-of-scope': ['total', 'error', 'code'],
  'error-of-query': ['total', 'code'],
};

/** Returns the lines of a resource in HAL. Those of a variant and of what it varies have a word in place of their id. */
async function linesOf(name: string, asked: Asked = assert.fail(name)): Promise<string[]> {
  const { structure } = await answerIn(name, asked, formats.hal);
  const isCompared = name in VARIANTS || Object.values(VARIANTS).includes(name);
  const [id = ''] = isCompared ? (/(?<=\/)\w+$/.exec(settled(asked.path)) ?? []) : [];
  return structure.replaceAll(id === '' ? /$^/g : new RegExp(`\\b${id}\\b`, 'g'), 'OWN_ID').split('\n');
}

/** The golden files of HAL: a list, its items and what is below them are reviewed together. */
const FAMILIES = [
  'home',
  'event',
  'user',
  'client',
  'grant',
  'store',
  'member',
  'invitation',
  'webhook',
  'health',
  'status',
  'log',
  'recover',
  'transaction',
  'subscription',
  'customer',
  'changelog',
  'error',
];
const familyOf = (name: string): string => FAMILIES.find((family) => name.startsWith(family)) ?? name;
const reviewed = openGoldenParts(comparable);

for (const [name, asked] of Object.entries(resources)) {
  test(`${name} as ${formats.hal} is as reviewed`, async () => {
    const lines = await linesOf(name, asked);
    const base = VARIANTS[name];
    const shown = base === undefined ? lines : [...ownLines(lines, await linesOf(base, resources[base])), ''];
    await reviewed.assertPart(`${familyOf(name)}.hal`, name, shown.join('\n'));
  });

  test(`${name} as ${formats.xml} has the content of HAL`, async () => {
    const [xml, hal] = [await answerIn(name, asked, formats.xml), await answerIn(name, asked, formats.hal)];
    assert.deepEqual([xml.head, xml.type], [hal.head, `${formats.xml}; charset=utf-8`]);
    assertSameLines(...xmlAndHal(xml.text, hal.text), 'XML (+) differs from HAL (-):');
  });

  test(`${name} as ${formats.siren} has the content of HAL`, async () => {
    const [siren, hal] = [await answerIn(name, asked, formats.siren), await answerIn(name, asked, formats.hal)];
    assert.deepEqual([siren.head, siren.type], [hal.head, formats.siren]);
    assertSameLines(...sirenAndHal(readSiren(siren.text), hal.text), 'Siren (+) differs from HAL (-):');
  });

  if (REVIEWED_PAGES.has(name)) {
    test(`${name} as ${formats.html} is as reviewed`, async () => {
      const { structure } = await answerIn(name, asked, formats.html);
      await assertGolden(`${name}.html`, structure, comparable);
    });
  } else {
    test(`${name} as ${formats.html} is valid and shows the values of HAL`, async () => {
      const [page, hal] = [await answerIn(name, asked, formats.html), await answerIn(name, asked, formats.hal)];
      assert.deepEqual([page.head.status, page.type], [hal.head.status, `${formats.html}; charset=utf-8`]);
      assert.deepEqual(await faultsIn(page.text), []);
      assert.deepEqual(missingInPage(page.text, hal.text), NOT_SHOWN[name] ?? []);
    });
  }
}

test('the golden files of HAL have no other parts', () => reviewed.assertAllCompared());

async function outlineIn(name: string, asked: Asked = assert.fail(name)): Promise<string[]> {
  const { text } = await answerIn(name, asked, formats.siren);
  return outlineOf('', readSiren(text), (one) => (isWording(one) ? '…' : one));
}

test('the actions, classes and titles of Siren are as reviewed', async () => {
  const lines: string[] = [];
  for (const [name, asked] of Object.entries(resources)) {
    const outline = await outlineIn(name, asked);
    const base = VARIANTS[name];
    if (base !== undefined) lines.push(`${name}: ${base} with other lines:`);
    const shown = base === undefined ? outline : ownLines(outline, await outlineIn(base, resources[base]));
    lines.push(...shown.map((line) => (/^(?: {2}|[+-])/.test(line) ? line : `${name}${line}`)));
  }
  await assertGolden('siren.actions', `${lines.join('\n')}\n`, comparable);
});

/** Their words are in docs/, where they are reviewed. */
const DOCUMENTS: ReadonlySet<string> = new Set(['receiving', 'event-types']);

const surfaces = { api: [formats.hal, formats.xml, formats.siren], pages: [formats.html] };

for (const [surface, accepts] of Object.entries(surfaces)) {
  test(`the wording of the ${surface} is as reviewed`, async () => {
    const known = new Set<string>();
    const lines: string[] = [];
    for (const [name, asked] of Object.entries(resources)) {
      if (surface === 'pages' && DOCUMENTS.has(name)) continue;
      for (const accept of accepts) {
        const { words } = await answerIn(name, asked, accept);
        for (const text of words) {
          if (!known.has(text)) lines.push(`${name}: ${text}`);
          known.add(text);
        }
      }
    }
    await assertGolden(`${surface}.words`, `${lines.join('\n')}\n`, comparable);
  });
}
