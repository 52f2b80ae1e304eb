import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type, type TSchema } from 'typebox';
import { parseJson } from './json-body.ts';
import { createValidator } from './validate.ts';

const names = Array.from({ length: 20 }, (_, n) => `member_${n}`);
const validate = createValidator(
  Type.Object(
    {
      ...Object.fromEntries(names.map((name) => [name, Type.String({ maxLength: 3 })])),
      list: Type.Optional(Type.Array(Type.String())),
    },
    { additionalProperties: false },
  ),
);

test('every fault of a body is reported, however many there are', () => {
  const { faults } = validate({ ...Object.fromEntries(names.map((name) => [name, 5])), x: 1, y: 2 });
  assert.deepEqual(new Set(faults.map(({ field }) => field)), new Set([...names, 'x', 'y']));
  assert.equal(faults.length, 22);
});

test('a valid value has no faults', () => {
  const { sound } = validate({
    ...Object.fromEntries(names.map((name) => [name, 'long'])),
    member_7: 'ok',
    list: [1],
    z: 1,
  });
  assert.deepEqual(sound, { member_7: 'ok' });
});

test('a nested fault has its full path', () => {
  const good = Object.fromEntries(names.map((name) => [name, 'ok']));
  assert.deepEqual(
    validate({ ...good, list: ['a', 5] }).faults.map(({ field, code }) => [field, code]),
    [['list.1', 'invalid_value']],
  );
});

test('a body that is not an object is one fault', () => {
  for (const value of [null, 5, 'text', []]) assert.equal(validate(value).faults.length, 1, JSON.stringify(value));
});

test('members beyond the limit are refused before each of them is validated', () => {
  const many = Object.fromEntries(Array.from({ length: 15_000 }, (_, n) => [`x${n}`, 1]));
  assert.throws(() => parseJson(Buffer.from(JSON.stringify(many)), { membersMax: 10_000 }), { status: 400 });
  assert.equal(Object.keys(parseJson(Buffer.from(JSON.stringify(many))) as object).length, 15_000);
  const { faults } = validate(many);
  assert.ok(faults.length < 100, String(faults.length));
});

const messages: readonly (readonly [schema: TSchema, value: unknown, message: string])[] = [
  [Type.String(), 5, 'x must be text'],
  [Type.Unsafe({ type: ['string', 'null'] }), 5, 'x must be text or null'],
  [Type.Unsafe({ type: ['integer', 'null'], minimum: 1 }), 'a', 'x must be a whole number or null'],
  [Type.Integer({ minimum: 1 }), 0, 'x must be at least 1'],
  [Type.Integer({ maximum: 9 }), 10, 'x must be at most 9'],
  [Type.Array(Type.String()), 5, 'x must be a list'],
  [Type.Array(Type.String(), { maxItems: 1 }), ['a', 'b'], 'x must have at most 1 items'],
  [Type.Array(Type.String()), [5], 'x.0 must be text'],
  [Type.Unsafe({ type: 'object', maxProperties: 1 }), { a: 1, b: 2 }, 'x must have at most 1 members'],
  [Type.String({ minLength: 1 }), '', 'x must not be empty'],
  [Type.String({ minLength: 8 }), 'a', 'x must be at least 8 characters'],
];
for (const [schema, value, message] of messages) {
  test(`the message of a fault: ${message}`, () => {
    const one = createValidator(Type.Object({ x: schema }, { additionalProperties: false }));
    assert.deepEqual(
      one({ x: value }).faults.map((fault) => fault.message),
      [message],
    );
  });
}
