import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { anyText } from '../../test/setup/any-text.ts';
import { EMAIL_LENGTH_MAX, isEmail, readEmail } from './email.ts';

const table: readonly (readonly [what: string, text: string, isOne: boolean])[] = [
  ['a plain one', 'ada@example.com', true],
  ['other alphabets on both sides', 'jörg@bücher.example', true],
  ['254 characters of two units each', `${'🐎'.repeat(242)}@example.com`, true],
  ['255 characters', `${'🐎'.repeat(243)}@example.com`, false],
  ['nothing', '', false],
  ['nothing before the @', '@example.com', false],
  ['nothing after the @', 'ada@', false],
  ['two @', 'ada@b@example.com', false],
  ['a blank', 'a b@example.com', false],
  ['a control character', 'ada\0@example.com', false],
  ['a line break at the end', 'ada@example.com\n', false],
];

for (const [what, text, isOne] of table) {
  test(`${what} is ${isOne ? 'an' : 'no'} e-mail address`, () => assert.equal(isEmail(text), isOne));
}

for (const [typed, read] of [
  ['ada@example.com', 'ada@example.com'],
  [' Ada.Lovelace@Example.COM ', 'ada.lovelace@example.com'],
  ['ada@y。example', 'ada@y.example'],
  ['ada@ｙ．ｅｘａｍｐｌｅ', 'ada@y.example'],
  ['ada@exam\u00ADple.com', 'ada@example.com'],
  ['ada@Straße.example', 'ada@straße.example'],
  ['ada@xn--strae-oqa.example', 'ada@straße.example'],
  ['ADÉLE@example.com', 'adéle@example.com'],
  ['ade\u0301le@example.com', 'adéle@example.com'],
  ['ada@localhost', 'ada@localhost'],
  ['ada@example.com.', 'ada@example.com'],
  ['ada@example.com..', 'ada@example.com'],
  ['"ada.l"@example.com', 'ada.l@example.com'],
  ['"a,b"@example.com', undefined],
  ['"ada@example.com', undefined],
  ['""@example.com', undefined],
  ['a\u00ADda@example.com', undefined],
  ['a\u200Bda@example.com', undefined],
  ['ada@.', undefined],
  ['', undefined],
  ['ada', undefined],
  ['@example.com', undefined],
  ['ada@', undefined],
  ['a@b@example.com', undefined],
  ['ada@exa mple.com', undefined],
  ['ada@example.com\u0000', undefined],
  ['ada@example.com/x', undefined],
  ['ada@example.com:25', undefined],
  ['ada@ex%61mple.com', undefined],
  ['ada@example.com\\x', undefined],
  ['ada@exam／ple.com', undefined],
  [`${'a'.repeat(EMAIL_LENGTH_MAX)}@example.com`, undefined],
] as const) {
  test(`the address ${JSON.stringify(typed)} is ${String(read)}`, () => assert.equal(readEmail(typed), read));
}

test('nothing is cut off from a domain', () => assert.equal(readEmail('ada@example.com/x'), undefined));

test('any text that is read is an address, and is read again as it is', () => {
  const part = anyText({ minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(part, fc.oneof(part, fc.domain()), (local, domain) => {
      const read = readEmail(`${local}@${domain}`);
      if (read === undefined) return;
      assert.ok(isEmail(read));
      assert.equal(readEmail(read), read);
    }),
    { numRuns: 2_000 },
  );
});
