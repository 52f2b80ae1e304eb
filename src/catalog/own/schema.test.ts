/** Which members the faults of a resource name. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonObject } from '../document.ts';
import { compileCheck } from './schema.ts';

const TEXT = { type: 'string' };

// oxfmt-ignore
const CASES: readonly (readonly [name: string, schema: JsonObject, resource: unknown, faults: readonly string[]])[] = [
  ['a match', { properties: { a: TEXT } }, { a: 'x' }, []],
  ['a wrong type in a list', { properties: { a: { items: TEXT } } }, { a: ['x', 1] }, ['invalid_value resource.a.1']],
  ['two missing members', { required: ['a', 'b', 'c'] }, { b: 1 }, ['required resource.a', 'required resource.c']],
  ['a member too many', { properties: { a: {} }, additionalProperties: false }, { a: 1, b: 2 }, ['unknown_property resource.b']],
  ['a further member of a wrong type', { additionalProperties: TEXT }, { b: 2 }, ['invalid_value resource.b']],
  ['a member that is never allowed', { properties: { a: false } }, { a: 1 }, ['unknown_property resource.a']],
  ['too many members, one of them wrong', { maxProperties: 1, properties: { a: TEXT } }, { a: 1, b: 2 }, ['invalid_value resource', 'invalid_value resource.a']],
  ['a name with a slash', { properties: { 'a/b~c': TEXT } }, { 'a/b~c': 1 }, ['invalid_value resource.a/b~c']],
  ['a reference', { $defs: { x: TEXT }, properties: { a: { $ref: '#/$defs/x' } } }, { a: 1 }, ['invalid_value resource.a']],
  ['a resource that nothing matches', { not: {} }, { a: 1 }, ['invalid_value resource']],
];

for (const [name, schema, resource, expected] of CASES)
  test(`faults of a resource: ${name}`, () => {
    const faults = compileCheck(schema)(JSON.stringify(resource));
    assert.deepEqual(faults.map(({ code, field }) => `${code} ${field}`).toSorted(), expected.toSorted());
    for (const { message, field = '' } of faults) assert.ok(message.startsWith(`${field} `), message);
  });
