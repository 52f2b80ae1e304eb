import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ExactNumber, parseExact, readAmount, readDecimal } from './exact-number.ts';

const digits = (maxLength: number) => fc.stringMatching(new RegExp(`^[0-9]{1,${maxLength}}$`));
const whole = fc.oneof(fc.constant('0'), fc.stringMatching(/^[1-9][0-9]{0,24}$/));
/** Any number that JSON permits, in every spelling. */
const numbers = fc
  .tuple(
    fc.constantFrom('', '-'),
    whole,
    fc.option(fc.oneof(digits(20), fc.stringMatching(/^0{0,8}[0-9]0{0,4}$/)), { nil: '' }),
    fc.option(fc.tuple(fc.constantFrom('e', 'E', 'e+', 'E-'), digits(2)), { nil: ['', ''] }),
  )
  .map(([sign, integer, fraction, exponent]) => sign + integer + (fraction && `.${fraction}`) + exponent.join(''));
const texts = fc
  .oneof(
    fc.string(),
    numbers,
    numbers.map((number) => `:${number},`),
  )
  .map((text) => JSON.stringify(text));

const { json } = fc.letrec<{ json: string }>((tie) => ({
  json: fc.oneof(
    { depthSize: 'small' },
    numbers,
    texts,
    fc.constantFrom('true', 'null'),
    fc.array(tie('json'), { maxLength: 4 }).map((items) => `[${items.join(',')}]`),
    fc
      .uniqueArray(fc.tuple(fc.stringMatching(/^[a-d]{1,4}$/), tie('json')), {
        maxLength: 4,
        selector: ([name]) => name,
      })
      .map((members) => `{${members.map(([name, value]) => `"${name}":${value}`).join(',')}}`),
  ),
}));

test('numbers in any spelling, anywhere in a value, are written as they were read', () => {
  fc.assert(
    fc.property(json, (value) => {
      const text = `{"value":${value}}`;
      assert.equal(JSON.stringify(parseExact(text)), text);
    }),
    { numRuns: 2_000 },
  );
});

test('without such numbers the result is that of JSON.parse', () => {
  const text =
    '{"price": 12.5, "quantity": 3, "large": 900719925474099, "at": "2026-11-25T10:00:00.000Z", "of": [0.1, -7]}';
  assert.deepEqual(parseExact(text), JSON.parse(text));
});

test('an id that is a safe integer is a number in any spelling, and a larger one keeps its digits', () => {
  assert.deepEqual(parseExact('{"id":1e3,"customer_id":12.0,"price":12.0}'), {
    id: 1_000,
    customer_id: 12,
    price: new ExactNumber('12.0'),
  });
  assert.equal(JSON.stringify(parseExact('{"id":9007199254740993}')), '{"id":9007199254740993}');
});

test('text that is not JSON is a SyntaxError', () => {
  for (const text of ['{"a":1.0', '{"a:1.0,', String.raw`{"a\"b\":1.0,`, '{"a":1.0,"b', '[1.0,]'])
    assert.throws(() => parseExact(text), SyntaxError, text);
});

test('what looks like a number is kept in a string that has escaped quotes', () => {
  const text = String.raw`{"a":"[1.50,\"[2.50,","b":3.50}`;
  assert.deepEqual(parseExact(text), { a: '[1.50,"[2.50,', b: new ExactNumber('3.50') });
});

test('what was parsed before is returned if a double changes none of its numbers', () => {
  for (const text of ['{"a":1}', '{"a":"[1.50,"}']) {
    const parsed: unknown = JSON.parse(text);
    assert.equal(parseExact(text, { parsed }), parsed);
  }
});

test('more numbers than permitted are a RangeError, after which the next text is parsed from its start', () => {
  assert.equal(JSON.stringify(parseExact('[1.50,2.50]', { max: 2 })), '[1.50,2.50]');
  assert.throws(() => parseExact('[1.50,2.50]', { max: 1 }), RangeError);
  assert.equal(JSON.stringify(parseExact('[1.50]')), '[1.50]');
});

test('each number that a double would change is checked', () => {
  const checked: string[] = [];
  parseExact('[1,12.50,[1E2],{"a":-0}]', { check: ({ text }) => checked.push(text) });
  assert.deepEqual(checked, ['12.50', '1E2', '-0']);
});

test('an exponent of three digits is read for a comparison, and not for an amount, whose sums would cost processor time', () => {
  assert.deepEqual(readDecimal('1e-999'), { digits: 1n, places: 999 });
  for (const value of ['1e-999', '1e999', 1e300, new ExactNumber('1E+100')]) assert.equal(readAmount(value), undefined);
  for (const value of ['1e2', 1e2, new ExactNumber('1E+2')])
    assert.deepEqual(readAmount(value), { digits: 100n, places: 0 });
});
