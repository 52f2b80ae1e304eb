import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isEmail } from './email.ts';

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
