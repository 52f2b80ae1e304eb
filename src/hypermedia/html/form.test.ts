import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Action, Document, Field } from '../document.ts';
import { html } from '../markup.ts';
import type { Refused, View } from '../view.ts';
import { renderHtml } from './document-page.ts';
import { labelled } from './words.ts';

const naming = { baseUrl: 'https://api.example.com', relationPrefix: 'svc' };
const href = 'https://api.example.com/things/1?x=1';
const owner: View = { nav: html``, session: { nonceOf: ({ name }) => `nonce-${name}`, onceKey: 'once' } };

const actionOf = (method: Action['method'], fields: readonly Field[], name = 'change'): Action => ({
  name,
  title: 'Do it',
  method,
  href,
  fields,
});

function pageOf(actions: readonly Action[], view: View = owner, rest: Partial<Document> = {}): string {
  const document: Document = { name: 'thing', version: 7, links: [], embedded: [], properties: [], actions, ...rest };
  return renderHtml(document, naming, view).replaceAll(/\s+/g, ' ').replaceAll(' >', '>');
}

const base: Field = { name: 'thing', kind: 'text', isRequired: false, isMultiple: false };

/** The field in its form, from its label to its end. */
function fieldIn(method: Action['method'], field: Partial<Field>, refused?: Refused): string {
  const view = refused === undefined ? owner : { ...owner, refused };
  const page = pageOf([actionOf(method, [{ ...base, ...field }])], view);
  return /<(?:div class="field"|fieldset)[\s\S]*?(?=<div class="buttons">)/.exec(page)?.[0] ?? '';
}

const controls: readonly (readonly [name: string, field: Partial<Field>, control: RegExp])[] = [
  ['text', { value: 'a "b"' }, /<input type="text" id="form-0-0" name="thing" value="a &quot;b&quot;"/],
  ['text of lines', { value: 'a\nb' }, /<textarea [^>]*name="thing"[^>]*> a b<\/textarea>/],
  ['long text', { maxLength: 256 }, /<textarea /],
  ['code', { kind: 'code' }, /<textarea /],
  [
    'a number',
    { kind: 'number', value: 5, minimum: 1, maximum: 9 },
    /type="number" step="any" [^>]*value="5" min="1" max="9"/,
  ],
  [
    'a flag that is set',
    { kind: 'boolean', value: '1' },
    /<select [^>]*> <option value="1" selected>Yes<\/option><option value="0">No<\/option>/,
  ],
  [
    'a flag that is 0',
    { kind: 'boolean', value: false },
    /<option value="1">Yes<\/option><option value="0" selected>No<\/option>/,
  ],
  ['a flag that is unset', { kind: 'boolean' }, /<option value="" selected>None<\/option>/],
  [
    'a choice',
    { choices: ['one_a', 'b'], value: 'b' },
    /<select [^>]*> <option value="one_a">One a<\/option><option value="b" selected>B<\/option>/,
  ],
  [
    'a choice that may be cleared',
    { choices: ['a'], value: 'a', isClearable: true },
    /<option value="">None<\/option>/,
  ],
  [
    'a required choice',
    { choices: ['a'], isRequired: true },
    /<select [^>]*required[^>]*> <option value="" selected>Choose …/,
  ],
  ['a choice that no longer exists', { choices: ['a'], value: 'old' }, /<option value="old" selected>old<\/option>/],
  [
    'lines',
    { isMultiple: true, kind: 'url', value: ['a', 'b'] },
    /<textarea [^>]*> a b<\/textarea>[\s\S]*One per line\./,
  ],
  ['a url', { kind: 'url', value: 'x' }, /<input type="text" inputmode="url" [^>]*value="x"/],
  [
    'names with values',
    { kind: 'json', value: { 'X-A': 'b', 'X-C': 'd' } },
    /<textarea [^>]*> X-A: b X-C: d<\/textarea>/,
  ],
  [
    'names with hidden values',
    { kind: 'json', value: { 'X-A': null, 'X-C': 'd' } },
    /<textarea [^>]*> X-A: X-C: d<\/textarea>/,
  ],
  ['a structure', { kind: 'json', value: { a: [1] } }, /<textarea [^>]*> \{&quot;a&quot;:\[1\]\}<\/textarea>/],
  [
    'a required field',
    { isRequired: true },
    /<input [^>]*required[^>]*aria-describedby="form-0-0-hint"[\s\S]*Required\./,
  ],
  ['a length', { minLength: 2, maxLength: 9 }, /minlength="2" [\s\S]*\b9 characters/],
];

for (const [name, field, control] of controls) {
  test(`a form asks for ${name}`, () => assert.match(fieldIn('PATCH', field), control));
}

test('a creation form starts with the default value, shown by its name', () => {
  const named = fieldIn('POST', { choices: ['a', 'b'], value: 'b', isClearable: true });
  assert.match(named, /<option value="b" selected>B<\/option>/);
  assert.doesNotMatch(named, /<option value=""/);
  assert.match(fieldIn('POST', { choices: ['a'] }), /<option value="" selected>None<\/option>/);
});

test('no browser truncates a text that the server would accept', () => {
  assert.doesNotMatch(fieldIn('PATCH', { maxLength: 9 }), /maxlength/i);
});

test('ticked boxes come first and in their order, so that an untouched form sends the same value', () => {
  const field = fieldIn('PATCH', { isMultiple: true, choices: ['a', 'b', 'c'], value: ['c', 'a'] });
  const boxes = [...field.matchAll(/name="thing\[\]" value="(.)"( checked)?/g)].map(([, value, checked]) => [
    value,
    checked,
  ]);
  assert.deepEqual(boxes, [
    ['c', ' checked'],
    ['a', ' checked'],
    ['b', undefined],
  ]);
});

const stored = { kind: 'secret', value: 'stored secret', isGenerated: true } as const;

test('a form never contains a stored secret, and no browser fills in the password of this site', () => {
  const field = fieldIn('PATCH', stored);
  assert.doesNotMatch(field, /stored secret/);
  assert.match(field, /type="password" autocomplete="new-password"/);
  assert.match(field, /Leave empty to keep the current value\./);
});

test('a generated key of a creation form is readable', () => {
  const field = fieldIn('POST', { ...stored, value: 'made up' });
  assert.match(field, /type="text" [^>]*value="made up"/);
  assert.doesNotMatch(field, /Leave empty/);
});

const refusedWith = (typed: readonly string[]): Refused => ({
  version: '3',
  action: 'change',
  values: { thing: typed },
  faults: [
    { code: 'x', message: 'thing is wrong', field: 'thing.1' },
    { code: 'y', message: 'Something else is wrong!' },
  ],
});

const retyped: readonly (readonly [name: string, field: Partial<Field>, typed: string[], control: RegExp])[] = [
  ['text', { value: 'old' }, ['typed'], /value="typed"/],
  ['a cleared text', { value: 'old' }, [''], /value=""/],
  ['an invalid number', { kind: 'number', value: 5 }, ['many'], /type="text" inputmode="decimal" [^>]*value="many"/],
  ['a flag', { kind: 'boolean', value: '1' }, ['0'], /<option value="0" selected>/],
  ['an unknown choice', { choices: ['a'], value: 'a' }, ['b'], /<option value="b" selected>/],
  [
    'boxes',
    { isMultiple: true, choices: ['a', 'b'], value: ['a'] },
    ['b', 'x'],
    /value="b" checked[\s\S]*value="x" checked[\s\S]*value="a" aria-invalid/,
  ],
  ['lines', { isMultiple: true, value: ['old'] }, ['a\nb'], /<textarea [^>]*> a b<\/textarea>/],
  ['a secret', stored, ['typed'], /type="password"(?![^>]*value="typed")/],
  ['a structure', { kind: 'json', value: {} }, ['{"a":'], /> \{&quot;a&quot;:<\/textarea>/],
];

for (const [name, field, typed, control] of retyped) {
  test(`a refused form keeps the typed values: ${name}`, () => {
    const again = fieldIn('PATCH', field, refusedWith(typed));
    assert.match(again, control);
    assert.doesNotMatch(again, /value="old"/);
  });
}

test('a refused form does not send back a key that was typed for something new, and says so', () => {
  const again = fieldIn('POST', stored, refusedWith(['typed']));
  assert.match(again, /type="password"(?![^>]*value=)/);
  assert.doesNotMatch(again, /typed"|stored secret/);
  assert.match(again, /not sent back/);
  assert.doesNotMatch(fieldIn('POST', stored, refusedWith([''])), /not sent back/);
});

test('a refused form keeps the key that it had offered', () => {
  const offered = `whsec_${'aB3+'.repeat(8)}`;
  assert.ok(fieldIn('POST', stored, refusedWith([offered])).includes(`value="${offered}"`));
});

test('unticked boxes stay unticked in a refused form', () => {
  const field = { isMultiple: true, choices: ['a'], value: ['a'] };
  const again = fieldIn('PATCH', field, { ...refusedWith([]), values: {} });
  assert.match(again, /value="a"/);
  assert.doesNotMatch(again, /checked/);
});

test('each fault is shown beside its field and at the top, with a link to the field', () => {
  const refused = refusedWith(['typed']);
  const page = pageOf([actionOf('PATCH', [base])], { ...owner, refused });
  assert.match(page, /role="alert"> <p>[^<]*\b2\b[^<]*<\/p>/);
  assert.match(page, /<li><a href="#form-0-0">Thing is wrong\.<\/a><\/li><li>Something else is wrong!<\/li>/);
  assert.match(page, /<details class="card" open> <summary>Do it<\/summary>/);
  assert.match(page, /aria-describedby="form-0-0-fault" aria-invalid="true"/);
  assert.match(page, /<div class="fault" id="form-0-0-fault"><p>Thing is wrong\.<\/p><\/div>/);
});

for (const [message, shown] of [
  ['encryption_key is required when format is json', 'Encryption key is required when format is json'],
  ['url must be an absolute address', 'URL must be an absolute address'],
  ['format must be one of: json, partner_automation', 'Format must be one of: json, partner automation'],
  [
    'finish must not be combined with encryption_key: it ends',
    'Finish must not be combined with encryption key: it ends',
  ],
  ['No "new_thing" is a transaction_log/created, a_b=1 or date_created:lessthan', undefined],
] as const)
  test(`a form shows the message ${message} with its labels`, () =>
    assert.equal(labelled(message, message.split(' ', 1)[0]), shown ?? message));

const hiddenIn = (page: string): string[][] =>
  [...page.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)].map(([, ...pair]) => pair);

test('a form names its action, its version and its session', () => {
  const change = pageOf([actionOf('PATCH', [base])]);
  assert.match(change, /<form method="post" action="\/things\/1\?x=1"/);
  assert.deepEqual(hiddenIn(change), [
    ['nonce', 'nonce-change'],
    ['_method', 'PATCH'],
    ['_version', '7'],
  ]);
  assert.deepEqual(hiddenIn(pageOf([actionOf('POST', [base], 'create')])), [
    ['nonce', 'nonce-create'],
    ['_key', 'once'],
  ]);
  assert.deepEqual(hiddenIn(pageOf([actionOf('POST', [], 'rotate')])), [
    ['nonce', 'nonce-rotate'],
    ['_key', 'once'],
    ['_version', '7'],
  ]);
  assert.deepEqual(hiddenIn(pageOf([actionOf('DELETE', [], 'delete')])).slice(1, 2), [['_method', 'DELETE']]);
});

test('an irreversible action is marked as such, and replacing is available to API clients only', () => {
  const page = pageOf([actionOf('PUT', [base], 'replace'), actionOf('DELETE', [], 'delete')]);
  assert.equal(page.match(/<form/g)?.length, 1);
  assert.match(page, /undone[\s\S]*<button type="submit" class="danger">Do it<\/button>/);
});

test('without a session there are no forms', () => {
  assert.doesNotMatch(pageOf([actionOf('PATCH', [base])], { ...owner, session: undefined }), /<form|nonce/);
});

test('advanced fields are folded, unless one has a fault', () => {
  const action = actionOf('POST', [{ ...base, name: 'rare', isMinor: true }, base], 'create');
  const fold = (view?: View) =>
    /(<details class="fold"[^>]*>) <summary>([^<]*)(.*?)<\/details>/.exec(pageOf([action], view));
  const [, start, summary, rest = ''] = fold() ?? [];
  assert.deepEqual([start, summary], ['<details class="fold">', 'More settings: rare']);
  assert.match(rest, /name="rare"/);
  assert.doesNotMatch(rest, /name="thing"/);
  const refused = { action: 'create', values: {}, version: '', faults: [{ code: 'x', message: 'no', field: 'rare' }] };
  assert.equal(fold({ ...owner, refused })?.[1], '<details class="fold" open>');
});

test('a creation form starts with the suggested values, a change form with the present ones', () => {
  const value = '2026-07-01T12:00:00+0200';
  const suggested = { thing: [{ label: 'Since then', value }] };
  const advice = { paragraphs: [html`Nothing arrives.`], suggested };
  const make = pageOf([actionOf('POST', [base])], { ...owner, advice });
  assert.match(
    make,
    /<input type="radio" name="thing" value="2026-07-01T12:00:00\+0200" checked[^>]*>.*Since then.*12:00 UTC\+2/,
  );
  assert.match(
    make,
    /<input type="radio" name="thing" value=""( \/)?>.*<input type="text" id="form-0-0-other" name="thing\.other" value=""/,
  );
  assert.match(make, /<div class="alert"> ?<p>Nothing arrives\.<\/p>/);
  const change = pageOf([actionOf('PATCH', [base])], { ...owner, advice });
  assert.match(change, /<input type="text" id="form-0-0" name="thing" value=""/);
});
