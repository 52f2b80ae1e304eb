/**
 * No role can have a secret that it may not see sent to an address of its choice, also not to another path of the same origin: all
 * roles, all ways to change where and how a webhook sends. In the format partner_sitebuilder the key is sent in a header, in the others only its signatures; the
 * values of `headers` and the query of `url` are sent in all of them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { amountOf } from '../setup/amount.ts';
import { faultsIn, startWebhookApi, type Token } from '../setup/webhook-api.ts';

const { call, sql, a } = await startWebhookApi();

const RUNS = amountOf('redirected-secrets', { all: 60, part: 15 });
const KEY = 'the token of the other platform';
const HOME = 'https://cms.example.com/items';
const ELSEWHERE = 'https://collector.example.net/';
/** Another address at the same origin. */
const BESIDE = `${HOME}/other`;

/** The roles with access to the webhook; the first two see its key. */
const ROLES = ['a', 'owner', 'a-other', 'user', 'member', 'platform'] as const satisfies readonly Token[];
const sees = (role: Token): boolean => role === 'a' || role === 'owner';

type Webhook = { format: string; url: string | null; headers?: Record<string, string> };

async function create(webhook: Webhook): Promise<string> {
  const body = { name: 'Orders', encryption_key: KEY, ...webhook };
  const made = await call('POST', `/stores/${a}/webhooks`, { body });
  assert.equal(made.status, 201, made.text);
  return `/webhooks/${String(made.body['id'])}`;
}

/** As the creator sees it. */
async function read(at: string) {
  const { body } = await call('GET', at);
  const { format, url, headers, encryption_key: key } = body;
  return { format: String(format), url: url as string | null, headers: headers as Record<string, string>, key };
}
/** As a DELETE, without the events about it. */
const remove = (at: string) => sql`delete from webhook where store_id = ${a} and id = ${Number(at.split('/').at(-1))}`;

/** Replaces a webhook that was changed: a change that is refused leaves it as it was. */
async function renewed(at: string, webhook: Webhook): Promise<string> {
  await remove(at);
  return create(webhook);
}

/** Where the key is sent: to an address, or nowhere. */
const goesTo = ({ format, url, key }: Webhook & { key: unknown }): string | undefined =>
  format === 'partner_sitebuilder' && key === KEY ? (url ?? undefined) : undefined;

const BEFORE: readonly Webhook[] = [
  { format: 'json', url: HOME },
  { format: 'json', url: null },
  { format: 'partner_automation', url: HOME },
  { format: 'partner_sitebuilder', url: HOME },
];

type Change = { method: 'PATCH' | 'PUT'; body: Record<string, unknown> };
const patch = (body: Record<string, unknown>): Change => ({ method: 'PATCH', body });
/** A whole webhook, as a form sends it: hidden values are null. */
const put = (body: Record<string, unknown>): Change => ({
  method: 'PUT',
  body: { name: 'Orders', format: 'partner_sitebuilder', ...body },
});

const CHANGES: readonly (readonly [what: string, change: Change])[] = [
  ['the format', patch({ format: 'partner_sitebuilder' })],
  ['the format, key null', patch({ format: 'partner_sitebuilder', encryption_key: null })],
  ['the url', patch({ url: ELSEWHERE })],
  ['the path', patch({ url: BESIDE })],
  ['the query', patch({ url: `${HOME}?verbose=1` })],
  ['the path, key null', put({ url: BESIDE, encryption_key: null })],
  ['both', patch({ url: ELSEWHERE, format: 'partner_sitebuilder' })],
  ['both, key null', patch({ url: ELSEWHERE, format: 'partner_sitebuilder', encryption_key: null })],
  ['both, key empty', patch({ url: ELSEWHERE, format: 'partner_sitebuilder', encryption_key: '' })],
  ['all, without a key', put({ url: ELSEWHERE })],
  ['all, key null', put({ url: ELSEWHERE, encryption_key: null })],
  ['both, a key of theirs', patch({ url: ELSEWHERE, format: 'partner_sitebuilder', encryption_key: 'theirs' })],
];

for (const role of ROLES) {
  test(`${role}: the key ${sees(role) ? 'can be sent anywhere, since the role sees it' : 'is sent to the same address as before, or nowhere'}`, async (t) => {
    const rows: string[] = [];
    for (const before of BEFORE) {
      let at = await create(before);
      for (const [what, { method, body }] of CHANGES) {
        const answer = await call(method, at, { token: role, body });
        const faults = answer.status === 200 ? [] : faultsIn(answer);
        const after = goesTo(await read(at));
        const row = `${before.format} ${before.url ?? 'nowhere'} | ${what} | ${answer.status} ${faults.join(', ')} | key to ${after ?? '-'}`;
        rows.push(row);
        if (!sees(role)) assert.ok(after === undefined || after === goesTo({ ...before, key: KEY }), row);
        if (answer.status === 200) at = await renewed(at, before);
        else assert.deepEqual(faults, ['encryption_key required'], row);
      }
    }
    for (const row of rows) t.diagnostic(row);
  });
}

const change = fc.record(
  {
    format: fc.constantFrom('json', 'partner_sitebuilder', 'partner_automation'),
    url: fc.constantFrom(HOME, BESIDE, ELSEWHERE, null),
    encryption_key: fc.constantFrom(null, '', 'theirs'),
  },
  { requiredKeys: [] },
);
const step = fc.record({
  role: fc.constantFrom(...ROLES.filter((role) => !sees(role))),
  method: fc.constantFrom('PATCH' as const, 'PUT' as const),
  body: change,
});

test('the key stays at its address after any sequence of changes', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...BEFORE),
      fc.array(step, { minLength: 2, maxLength: 5 }),
      async (before, steps) => {
        const at = await create(before);
        for (const { role, method, body } of steps) {
          const whole = method === 'PUT' ? { name: 'Orders', format: 'json', ...body } : body;
          await call(method, at, { token: role, body: whole });
          const after = goesTo(await read(at));
          assert.ok(after === undefined || after === HOME, `${role} has the key sent to ${String(after)}`);
          assert.ok(after === undefined || before.format === 'partner_sitebuilder', `${role} has the key sent at all`);
        }
        await remove(at);
      },
    ),
    {
      numRuns: RUNS,
      // One step that a random sequence reaches too rarely.
      examples: [
        [{ format: 'json', url: HOME }, [{ role: 'user', method: 'PATCH', body: { format: 'partner_sitebuilder' } }]],
      ],
    },
  );
});

const VALUE = 'the token of the endpoint';
const QUERY = 'token=the-token-in-the-url';
const SECRET_HOME = `${HOME}?${QUERY}`;
const SHOWN_HOME = `${HOME}?token=***`;
const HEADERS = { 'X-Api-Key': VALUE, 'X-Team': 'ops' };
const NAMES = { 'X-Api-Key': null, 'X-Team': null };
const THEIRS = { 'X-Api-Key': 'theirs', 'X-Team': 'theirs' };
const FORMATS = ['json', 'partner_sitebuilder'] as const;

/** Where the secrets of the request are sent: each to an address, or nowhere. */
const goTo = ({ url, headers }: Awaited<ReturnType<typeof read>>) => ({
  value: Object.values(headers).includes(VALUE) ? (url ?? undefined) : undefined,
  query: url?.includes(QUERY) === true ? url : undefined,
});
const isHomeOrNowhere = (url: string | undefined): boolean => url === undefined || url === SECRET_HOME;

/** `faults`: of the roles that do not see the values. */
const MOVES: readonly (readonly [what: string, change: Change, faults: readonly string[]])[] = [
  ['the origin', patch({ url: ELSEWHERE }), ['headers required']],
  ['the scheme', patch({ url: HOME.replace('https', 'http'), format: 'json' }), ['headers required']],
  ['the port', patch({ url: HOME.replace('.com', '.com:8443') }), ['headers required']],
  ['the origin, values null', patch({ url: ELSEWHERE, headers: NAMES }), ['headers required']],
  [
    'the origin, one value null',
    patch({ url: ELSEWHERE, headers: { ...THEIRS, 'X-Team': null } }),
    ['headers required'],
  ],
  ['the origin, a name alone', patch({ url: ELSEWHERE, headers: { 'x-API-key': null } }), ['headers required']],
  ['the origin, values empty', patch({ url: ELSEWHERE, headers: { 'X-Api-Key': '' } }), ['headers required']],
  ['the origin, values of theirs', patch({ url: ELSEWHERE, headers: THEIRS }), []],
  ['the origin, headers removed', patch({ url: ELSEWHERE, headers: {} }), []],
  ['the origin, headers null', patch({ url: ELSEWHERE, headers: null }), []],
  ['the origin and the hidden query', patch({ url: `${ELSEWHERE}?token=***`, headers: {} }), ['url invalid_value']],
  [
    'the path and the hidden query',
    patch({ url: SHOWN_HOME.replace('items', 'other') }),
    ['headers required', 'url invalid_value'],
  ],
  ['the path', patch({ url: BESIDE }), ['headers required']],
  ['the path, one value null', patch({ url: BESIDE, headers: { ...THEIRS, 'X-Team': null } }), ['headers required']],
  ['the path, values of theirs', patch({ url: BESIDE, headers: THEIRS }), []],
  ['the query', patch({ url: `${HOME}?token=theirs` }), ['headers required']],
  ['the query, removed', patch({ url: HOME }), ['headers required']],
  ['nothing', patch({ url: SHOWN_HOME, headers: NAMES }), []],
  ['no url', patch({ url: null }), []],
  ['all, values null', put({ url: ELSEWHERE, headers: NAMES, encryption_key: 'theirs' }), ['headers required']],
  ['all, without headers', put({ url: ELSEWHERE, encryption_key: 'theirs' }), []],
  ['all as shown', put({ url: SHOWN_HOME, headers: NAMES, encryption_key: null }), []],
];

for (const role of ROLES.filter((one) => !sees(one))) {
  test(`${role}: values of headers and the query are sent to the same address as before, or nowhere`, async (t) => {
    const rows: string[] = [];
    for (const format of FORMATS) {
      const before = { format, url: SECRET_HOME, headers: HEADERS };
      let at = await create(before);
      for (const [what, { method, body }, faults] of MOVES) {
        // The key has its own rule, above.
        const own = { format, ...('url' in body && body['url'] !== SHOWN_HOME ? { encryption_key: 'theirs' } : {}) };
        const answer = await call(method, at, { token: role, body: { ...body, ...own } });
        const after = goTo(await read(at));
        const row = `${format} | ${what} | ${answer.status} ${answer.status === 200 ? '' : faultsIn(answer).join(', ')}`;
        rows.push(`${row} | value to ${after.value ?? '-'}, query to ${after.query ?? '-'}`);
        assert.ok(isHomeOrNowhere(after.value) && isHomeOrNowhere(after.query), rows.at(-1) ?? row);
        if (what === 'the scheme' && format === 'partner_sitebuilder') assert.equal(answer.status, 400, row);
        else assert.deepEqual(answer.status === 200 ? [] : faultsIn(answer), faults, row);
        if (answer.status === 200) at = await renewed(at, before);
      }
    }
    for (const row of rows) t.diagnostic(row);
  });
}

test('values of headers are sent to no other address if the url was removed first', async () => {
  const at = await create({ format: 'json', url: SECRET_HOME, headers: HEADERS });
  assert.equal((await call('PATCH', at, { token: 'member', body: { url: null } })).status, 200);
  for (const url of [ELSEWHERE, BESIDE]) {
    const moved = await call('PATCH', at, { token: 'member', body: { url } });
    assert.deepEqual([moved.status, ...faultsIn(moved)], [400, 'headers required']);
  }
});

test('roles that see the values may send them anywhere', async () => {
  for (const role of ['a', 'owner'] as const) {
    const at = await create({ format: 'json', url: SECRET_HOME, headers: HEADERS });
    const { status } = await call('PATCH', at, { token: role, body: { url: `${ELSEWHERE}?${QUERY}`, headers: NAMES } });
    assert.equal(status, 200);
    const to = `${ELSEWHERE}?${QUERY}`;
    assert.deepEqual(goTo(await read(at)), { value: to, query: to }, role);
  }
});

const headersInput = fc.constantFrom(
  NAMES,
  THEIRS,
  {},
  null,
  { 'x-api-key': null },
  { 'X-Api-Key': '' },
  { 'X-Team': null, 'X-New': 'x' },
);
const urlInput = fc.constantFrom(
  HOME,
  SHOWN_HOME,
  ELSEWHERE,
  BESIDE,
  `${ELSEWHERE}?token=***`,
  `${BESIDE}?token=***`,
  null,
);
const move = fc.record(
  {
    role: fc.constantFrom(...ROLES.filter((role) => !sees(role))),
    method: fc.constantFrom('PATCH' as const, 'PUT' as const),
    body: fc.record(
      {
        url: urlInput,
        headers: headersInput,
        format: fc.constantFrom(...FORMATS),
        encryption_key: fc.constantFrom(null, 'theirs'),
      },
      { requiredKeys: [] },
    ),
  },
  { noNullPrototype: true },
);

test('values of headers and the query stay at their address after any sequence of changes', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...FORMATS),
      fc.array(move, { minLength: 2, maxLength: 5 }),
      async (format, moves) => {
        const at = await create({ format, url: SECRET_HOME, headers: HEADERS });
        for (const { role, method, body } of moves) {
          const whole = method === 'PUT' ? { name: 'Orders', format, ...body } : body;
          await call(method, at, { token: role, body: whole });
          const after = goTo(await read(at));
          assert.ok(isHomeOrNowhere(after.value), `${role} has a value sent to ${String(after.value)}`);
          assert.ok(isHomeOrNowhere(after.query), `${role} has the query sent to ${String(after.query)}`);
        }
        await remove(at);
      },
    ),
    { numRuns: RUNS },
  );
});
