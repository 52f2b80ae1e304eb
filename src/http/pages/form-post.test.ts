import assert from 'node:assert/strict';
import { test } from 'node:test';
import { html } from '#hypermedia/markup.ts';
import type { Field, Kind, Value } from '#hypermedia/document.ts';
import { bodyOf, readFormPost } from './form-post.ts';

const field = (name: string, kind: Kind, value?: Value, isMultiple = false): Field => ({
  name,
  kind,
  isRequired: false,
  isMultiple,
  ...(value === undefined ? {} : { value }),
});

const visitor = {
  principal: {
    userId: 1,
    clientId: null,
    publicClientId: null,
    grantId: null,
    scope: 'user_full_access',
    permissions: null,
    stores: [],
    suspended: new Map(),
    owned: [],
  },
  nonceOf: () => '',
  nav: () => ({ nav: html`` }),
  restored: (form: URLSearchParams) => form,
  confirm: async () => undefined,
  confirmAt: () => undefined,
  enrolAt: () => undefined,
  takeKept: () => undefined,
  isNonce: (given: string | null, [method, path]: readonly string[]) => given === `${method} ${path}`,
} as const;

const posted = (fields: [string, string][], method = 'PATCH') =>
  readFormPost(
    Buffer.from(new URLSearchParams([['_method', method], ['nonce', `${method} /x`], ...fields]).toString()),
    '/x',
    visitor,
  );

const changes: [what: string, fields: Field[], sent: [string, string][], body: Record<string, unknown>][] = [
  ['an unchanged text', [field('name', 'text', 'Shop')], [['name', 'Shop']], {}],
  ['another text', [field('name', 'text', 'Shop')], [['name', 'Store']], { name: 'Store' }],
  ['a text that is cleared', [field('url', 'url', 'http://a')], [['url', '']], { url: '' }],
  ['lines with other line ends only', [field('note', 'text', 'a\nb')], [['note', 'a\r\nb']], {}],
  ['an unchanged flag', [field('is_active', 'boolean', '1')], [['is_active', '1']], {}],
  ['a changed flag', [field('is_active', 'boolean', '1')], [['is_active', '0']], { is_active: '0' }],
  ['a secret that was left empty', [field('key', 'secret', 'old')], [['key', '']], {}],
  ['a new secret', [field('key', 'secret', 'old')], [['key', 'new']], { key: 'new' }],
  [
    'a secret with pasted white space around it',
    [field('key', 'secret', 'old')],
    [['key', ' a b\t\n']],
    { key: 'a b' },
  ],
  ['a text of blanks', [field('name', 'text', '  ')], [['name', '  ']], {}],
  ['a text of blanks that is cleared', [field('name', 'text', '  ')], [['name', '']], { name: '' }],
  ['blanks around a stored text', [field('name', 'text', ' Shop')], [['name', ' Shop']], {}],
  [
    'the same boxes',
    [field('events', 'text', ['a', 'b'], true)],
    [
      ['events', 'a'],
      ['events', 'b'],
    ],
    {},
  ],
  ['fewer boxes', [field('events', 'text', ['a', 'b'], true)], [['events', 'b']], { events: ['b'] }],
  ['no box at all', [field('events', 'text', ['a'], true)], [], { events: [] }],
  ['lines', [field('uris', 'url', ['a'], true)], [['uris', 'a\r\nb\r\n\r\n']], { uris: ['a', 'b'] }],
  ['an unchanged object', [field('headers', 'json', { A: '1' })], [['headers', 'A: 1']], {}],
  ['a field outside the form', [field('name', 'text', 'Shop')], [['colour', 'red']], { colour: 'red' }],
];
for (const [what, fields, sent, body] of changes) {
  test(`a change of ${what} sends ${JSON.stringify(body)}`, () => {
    assert.deepEqual(bodyOf(posted(sent), { fields }), body);
  });
}

test('a creation sends only the fields that were filled in', () => {
  const fields = [
    field('name', 'text'),
    field('url', 'url'),
    field('key', 'secret', 'made up'),
    field('events', 'text', undefined, true),
  ];
  const sent: [string, string][] = [
    ['name', 'Shop'],
    ['url', ''],
    ['key', 'made up'],
  ];
  assert.deepEqual(bodyOf(posted(sent, 'POST'), { fields }), { name: 'Shop', key: 'made up' });
});

test('of more lines than any list may have, only so many are read', () => {
  const fields = [field('uris', 'url', [], true)];
  for (const [count, lines] of [
    [1, 90_000],
    [900, 100],
  ] as const) {
    const sent = Array.from({ length: count }, (): [string, string] => ['uris', 'a\n'.repeat(lines).trim()]);
    const { uris } = bodyOf(posted(sent), { fields });
    assert.equal((uris as string[]).length, 1_000);
  }
});

test('a form of another session, address or action is stale', () => {
  const form = (nonce: string) => Buffer.from(new URLSearchParams({ _method: 'DELETE', nonce }).toString());
  for (const nonce of ['', 'PATCH /x', 'DELETE /y']) {
    assert.equal(readFormPost(form(nonce), '/x', visitor).isStale, true);
  }
  const { method, isStale } = readFormPost(form('DELETE /x'), '/x', visitor);
  assert.deepEqual([method, isStale], ['DELETE', false]);
  assert.equal(readFormPost(form('DELETE /x'), '/x', null).isStale, true);
});

test('a method that forms do not have is refused', () => {
  for (const method of ['GET', 'HEAD', 'patch', 'TRACE', '__proto__']) {
    assert.throws(() => posted([], method), { status: 400 }, method);
  }
});
