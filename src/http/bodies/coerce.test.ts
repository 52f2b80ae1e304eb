import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from 'typebox';
import { coerceMembers } from './body.ts';

const schema = Type.Object({
  text: Type.String(),
  count: Type.Unsafe<number | null>({ type: ['integer', 'null'] }),
  headers: Type.Unsafe<Record<string, string> | null>({ type: ['object', 'null'] }),
  ids: Type.Array(Type.Integer()),
  inner: Type.Object({ count: Type.Integer() }),
});

const cases: readonly (readonly [what: string, given: Record<string, unknown>, meant: Record<string, unknown>])[] = [
  ['a text stays a text', { text: '1' }, { text: '1' }],
  ['an integer', { count: '-12' }, { count: -12 }],
  ['no integer', { count: '1.5' }, { count: '1.5' }],
  ['nothing', { count: '', headers: ' \n' }, { count: null, headers: null }],
  ['the items of an array', { ids: ['1', '2', 'x'] }, { ids: [1, 2, 'x'] }],
  ['the members of an object', { inner: { count: '3', other: '4' } }, { inner: { count: 3, other: '4' } }],
  ['lines', { headers: 'X-A: 1\r\n X-B :a: b \n\nX-C:' }, { headers: { 'X-A': '1', 'X-B': 'a: b', 'X-C': '' } }],
  ['JSON', { headers: ' {"X-A":"1"}' }, { headers: { 'X-A': '1' } }],
  ['a name twice', { headers: 'a: 1\na: 2' }, { headers: 'a: 1\na: 2' }],
  ['a line without a name', { headers: 'a: 1\nb' }, { headers: 'a: 1\nb' }],
  ['a line with an empty name', { headers: ': b' }, { headers: ': b' }],
  ['broken JSON', { headers: '{"a":' }, { headers: '{"a":' }],
  ['JSON with a name twice', { headers: '{"a":"1","a":"2"}' }, { headers: '{"a":"1","a":"2"}' }],
  ['as many lines as are read', { headers: `a: ${'1'.repeat(32_765)}` }, { headers: { a: '1'.repeat(32_765) } }],
  ['too many lines', { headers: `a: ${'1'.repeat(32_766)}` }, { headers: `a: ${'1'.repeat(32_766)}` }],
  ['an unknown member', { other: '5' }, { other: '5' }],
];
for (const [what, given, meant] of cases) {
  test(`a text is converted according to the schema: ${what}`, () =>
    assert.deepEqual(coerceMembers(schema, given), meant));
}
