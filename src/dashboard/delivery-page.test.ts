import assert from 'node:assert/strict';
import { test } from 'node:test';
import { execFileSync } from 'node:child_process';
import { array, assert as assertAll, constantFrom, property, string, jsonValue } from 'fast-check';
import { render, html } from '#hypermedia/markup.ts';
import { harmless } from '#core/text.ts';
import { detailedView, type AttemptView, type DetailedView } from '#webhooks/history/delivery-details.ts';
import type { DeliveryView } from '#webhooks/history/history-documents.ts';
import { naming } from '../../test/setup/documents.ts';
import { owner } from '../../test/setup/pages.ts';
import { curlCommand, deliveryPage, outcomeOf, shellWord, bodyBlock, indentedPieces, isJson } from './delivery-page.ts';

const now = new Date('2026-07-01T10:00:00Z');
const state = {
  status: 'pending',
  attempts: 0,
  attemptsMax: null,
  dateNext: null,
  dateEnded: null,
  resentAs: null,
  resent: null,
} as const;
const said = (changes: Partial<DetailedView>): string =>
  render(outcomeOf({ ...state, ...changes }, now))
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll(/\s+/g, ' ');

test('a pending delivery says which attempt is next, and when', () => {
  assert.equal(said({}), 'Attempt 1 is next.');
  assert.equal(said({ attempts: 2, dateNext: '2026-07-01T10:00:00+0000' }), 'Attempt 3 is next.');
  assert.equal(said({ attempts: 2, dateNext: '2026-07-01T12:04:00+0200' }), 'Attempt 3: 1 Jul 12:04 UTC+2.');
});

test('it says how many attempts there are, unless there were more before the retry profile was changed', () => {
  assert.equal(said({ attempts: 2, attemptsMax: 12 }), 'Attempt 3 of 12 is next.');
  assert.equal(said({ attempts: 11, attemptsMax: 12 }), 'Attempt 12 of 12 is next.');
  assert.equal(said({ attempts: 11, attemptsMax: 10 }), 'Attempt 12 is next.');
});

test('an ended delivery says after how many attempts', () => {
  const ended = { dateEnded: '2026-07-01T10:04:00+0000' };
  const at = '1 July 2026 at 10:04 UTC';
  for (const [status, attempts, words] of [
    ['successful', 1, `Delivered ${at}, at the first attempt.`],
    ['successful', 3, `Delivered ${at}, at attempt 3.`],
    ['failed', 0, `Failed ${at}, without an attempt.`],
    ['failed', 1, `Failed ${at}, after 1 attempt. There are no more automatic attempts.`],
    ['failed', 12, `Failed ${at}, after 12 attempts. There are no more automatic attempts.`],
  ] as const)
    assert.equal(said({ ...ended, status, attempts }), words);
  const resent = { status: 'successful', dateEnded: '2026-07-01T10:38:00+0000' } as DeliveryView;
  assert.equal(
    said({ ...ended, status: 'failed', attempts: 2, resent }),
    `Failed ${at}, after 2 attempts. The event was sent again, and arrived 1 July 2026 at 10:38 UTC.`,
  );
});

const refused = (n: number): AttemptView => ({
  n,
  request: `/statuses/1?attempt=${n}`,
  outcome: 'refused',
  reason: null,
  date: '2026-07-01T10:00:00+0000',
  durationMs: 1,
  responseCode: null,
  responseBody: null,
  responseHeaders: null,
});
const shown: DetailedView = {
  ...state,
  id: 1,
  title: 'Transaction 1 created',
  webhookId: 7,
  event: 'transaction/created',
  reason: null,
  waitsFor: null,
  dateCreated: '2026-07-01T10:00:00+0000',
  tried: [refused(1), refused(2)],
  request: {
    attempt: 2,
    note: '',
    isAsSent: true,
    method: 'POST',
    url: null,
    headers: null,
    body: null,
    bodyBytes: null,
    payload: null,
  },
};
const pageOf = (changes: Partial<DetailedView>): string => {
  const document = {
    name: 'status',
    links: [],
    embedded: [],
    properties: [],
    ...detailedView.attach({ ...shown, ...changes }),
  };
  return deliveryPage({ document, naming, view: owner, now }) ?? '';
};

test('the newest attempt is first', () => {
  assert.match(pageOf({}), /Attempt 2[^]*Attempt 1/);
});

test('each attempt links to its request, and the shown request names its attempt', () => {
  const page = pageOf({});
  for (const n of [1, 2]) assert.ok(page.includes(`href="/statuses/1?attempt=${n}#request"`), page);
  assert.match(page, /<h2>Request of attempt 2<\/h2>/);
});

test('what it waits for is shown, unless it is only the time of the next attempt', () => {
  const waitsFor = (kind: 'attempt' | 'pause') => ({ kind, text: 'The time of its first attempt.' });
  assert.match(pageOf({ waitsFor: waitsFor('pause') }), /It waits for the time of its first attempt/);
  assert.doesNotMatch(pageOf({ waitsFor: waitsFor('attempt') }), /It waits for/);
});

test('what happened is emphasized in the reason', () => {
  const reason = { what: 'It failed', text: 'It failed: see its log. Then send it again.' };
  assert.match(pageOf({ reason }), /<strong>It failed<\/strong>: see its log\. Then send it again\./);
});

test('a document of a list is not shown as a delivery', () => {
  const document = { name: 'status', links: [], embedded: [], properties: [] };
  assert.equal(deliveryPage({ document, naming, view: owner, now }), undefined);
});

/** Returns the arguments that a POSIX shell gives to curl. */
function argumentsIn(command: string): string[] {
  const printing = `curl() { for one do printf '%s\\0' "$one"; done; }\n${command}`;
  const environment = { PATH: process.env['PATH'], HOME: '/expanded', IFS: '' };
  return execFileSync('sh', ['-eu', '-c', printing], { env: environment, encoding: 'utf8' }).split('\0').slice(0, -1);
}

const HEADERS = ['content-type: application/json', 'Service-Store-ID: 1', 'webhook-timestamp: 1'];
const request = { method: 'POST', url: 'https://shop.example/hooks', headers: HEADERS.join('\n'), body: '{"id":1}' };
const commandOf = (changes: Partial<typeof request> = {}): string => {
  const command = curlCommand({ ...request, ...changes });
  assert.ok(command !== undefined);
  return command;
};

test('the command has the address, the headers and the body of the request', () => {
  assert.deepEqual(argumentsIn(commandOf()), [
    '--globoff',
    '--request',
    'POST',
    'https://shop.example/hooks',
    ...HEADERS.flatMap((line) => ['--header', line]),
    '--data-raw',
    '{"id":1}',
  ]);
});

const HOSTILE = [
  `it's`,
  `'`,
  `''';touch /tmp/x;'`,
  '$HOME ${HOME} $(id) `id`',
  'a\nb\n',
  '\\',
  '"',
  '!! !x',
  '*?[a]~{a,b}',
  '@/etc/passwd',
  '-o x',
  ' blank ',
  'Zoë 日本 🛒',
  '%s\\n',
  '#',
  '',
];

test('a shell reads every word as it was written', () => {
  assert.deepEqual(argumentsIn(`curl ${HOSTILE.map(shellWord).join(' ')}`), HOSTILE);
  for (const hostile of HOSTILE) {
    const body = JSON.stringify({ text: hostile });
    const header = `x-name: ${hostile.replaceAll('\n', '')}`.trimEnd();
    const read = argumentsIn(commandOf({ body, headers: `${header}\n${request.headers}` }));
    assert.equal(read.at(-1), body);
    assert.equal(read[5], header === 'x-name:' ? 'x-name;' : header);
  }
});

test('a shell reads any texts as they were written', () => {
  const word = string({ unit: constantFrom(...Array.from(`'"\\$\`!#*?~&|;<>(){}[]=@-% \n\téa1`)) });
  assertAll(
    property(array(word, { maxLength: 20 }), (words) => {
      assert.deepEqual(argumentsIn(`curl ${words.map(shellWord).join(' ')}`), words);
    }),
    { numRuns: 60 },
  );
});

test('the command contains no secret', () => {
  const secrets = ['x-team: SECRET', 'Service-Webhook-Signature: SECRET', 'webhook-signature: v1,SECRET'];
  const command = commandOf({
    url: 'https://SECRET:SECRET@shop.example/hooks?token=SECRET#SECRET',
    headers: [...HEADERS, ...secrets, 'authorization: Bearer SECRET'].join('\n'),
  });
  assert.doesNotMatch(command, /SECRET|x-team|authorization|signature/i);
  assert.equal(argumentsIn(command)[3], 'https://shop.example/hooks');
});

test('headers without the one after which secrets follow are left out', () => {
  assert.doesNotMatch(commandOf({ headers: 'content-type: application/json\nx-team: SECRET' }), /--header/);
});

test('characters that a page must not contain are escaped in JSON', () => {
  const body = '{"a":"x\u202ey\u2028"}';
  const command = commandOf({ body });
  assert.equal(harmless(command), command);
  assert.equal(argumentsIn(command).at(-1), String.raw`{"a":"x\u202ey\u2028"}`);
});

test('there is no command for an encrypted body, other control characters, and without an address', () => {
  assert.equal(curlCommand({ ...request, headers: 'content-type: application/jose' }), undefined);
  assert.equal(curlCommand({ ...request, body: 'a\u202eb' }), undefined);
  assert.equal(curlCommand({ ...request, body: '{\r"a":1}' }), undefined);
  assert.equal(curlCommand({ ...request, url: '' }), undefined);
  assert.equal(curlCommand({ ...request, url: 'file:///etc/passwd' }), undefined);
});

const block = (body: string, isCut = false): string => render(bodyBlock(body, { name: 'body', isCut }));
const textOf = (json: string): string =>
  indentedPieces(json)
    .map(({ text }) => text)
    .join('');
const escaped = (text: string): string => render(html`${text}`);

test('JSON is indented, and names, texts and other values have classes', () => {
  assert.equal(
    block('{"a":[1,"x\\"<",{}],"b":null}').replaceAll(/<span class="(\w+)">([^<]*)<\/span>/g, '$1($2)'),
    '<pre class="code">\n{\n  key(&quot;a&quot;): [\n    value(1),\n    text(&quot;x\\&quot;&lt;&quot;),\n    {}\n  ],\n  key(&quot;b&quot;): value(null)\n}</pre>',
  );
});

test('JSON keeps the spelling of its numbers, repeated names and their order', () => {
  const json = '{"2":1.0,"1":12345678901234567890,"2":1e3}';
  assert.equal(textOf(json).replaceAll(/\s/g, ''), json);
});

test('any JSON keeps its tokens, and its indentation is that of JSON.stringify', () => {
  assertAll(
    property(jsonValue({ maxDepth: 6 }), (value) => {
      const json = JSON.stringify(value);
      if (!isJson(json)) return;
      const indented = textOf(json);
      assert.deepEqual(JSON.parse(indented), JSON.parse(json));
      assert.equal(indented, JSON.stringify(JSON.parse(json), null, 2));
    }),
  );
});

test('a text that is not JSON is shown as it is, without markup of its own', () => {
  for (const text of ['<b>no</b>', '{"a":', '[1,]', 'plain', '"text"'])
    assert.equal(block(text), `<pre class="copyable">\n${escaped(text)}</pre>`);
});

test('JSON that is cut is indented as far as it goes', () => {
  assert.equal(textOf('{"a":{"b":"c'), '{\n  "a": {\n    "b": "c');
  assert.match(block('{"a":"b\\', true), /class="key"/);
});

test('long bodies are folded, with their size', () => {
  assert.match(block(JSON.stringify(Array.from({ length: 70 }, () => 1))), /<summary>\s*Show the body \(72 lines\)/);
  assert.match(block('x'.repeat(5_000)), /<summary>\s*Show the body \(5000 characters\)/);
});

/** The most that a page shows of a body. */
const BODY_BYTES = 16 * 1024;
const PAGE_BYTES_MAX = 1_000_000;

test('hostile bodies take a bounded part of the page', () => {
  for (const body of ['[', '[1,', '{"a":', '"\\', '}', '[[],'].map((part) => part.repeat(BODY_BYTES / part.length))) {
    assert.ok(block(`[${body}`, true).length < PAGE_BYTES_MAX, body.slice(0, 6));
  }
});

test('a body of many values is coloured in part', () => {
  const page = block(`[${'1,'.repeat(BODY_BYTES / 2)}1]`);
  assert.ok(page.split('<span').length <= 2_001, `${page.split('<span').length}`);
  assert.match(page, /<span class="value">1<\/span>/);
});
