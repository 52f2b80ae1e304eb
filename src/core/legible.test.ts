import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isLegible, isName, shownName } from './text.ts';

const illegible: Readonly<Record<string, string>> = {
  'a zero-width space': 'Pay\u200bPal',
  'a joiner between Latin letters': 'Pay\u200dPal',
  'a non-joiner between Cyrillic letters': '\u041f\u200c\u0430',
  'a joiner at the end': '\u0646\u200c',
  'a soft hyphen': 'Pay\u00adPal',
  'a Hangul filler': 'Pay\u3164Pal',
  'a blank in Braille': 'Pay\u2800Pal',
  'a byte order mark': '\ufeffPayPal',
  'another reading direction': 'a\u202eb',
  'a variation of a letter': 'P\ufe0fayPal',
  'tags behind a letter': 'PayPal\u{e0061}',
  'a line separator': 'Pay\u2028Pal',
  'a line break': 'Pay\nPal',
  'half of a surrogate pair': 'a\ud800',
};
for (const [what, text] of Object.entries(illegible)) {
  test(`illegible: ${what}`, () => assert.equal(isLegible(text), false));
}

const names: readonly string[] = [
  'PayPal',
  'Müller & Söhne',
  '株式会社',
  '7',
  'می\u200cخواهم',
  'क\u094d\u200dष',
  'Team 👩🏽\u200d💻',
  'I ❤\ufe0f mail',
];
for (const text of names) test(`a name: ${text}`, () => assert.equal(isName(text), true));

for (const text of ['', ' ', '\u3164', '\u200b', '…', '\u0301', '🚀'])
  test(`no name: ${JSON.stringify(text)}`, () => assert.equal(isName(text), false));

const LINKS: Readonly<Record<string, string>> = {
  'Log in: https://evil.example/pay': 'Log in: https: //evil. example/pay',
  'www.evil.example': 'www. evil. example',
  'evil\u200b.example': 'evil .example',
  'St. John & Co.': 'St. John & Co.',
  'Müller.example': 'Müller. example',
};
for (const [name, shown] of Object.entries(LINKS))
  test(`a name in a mail is no link: ${JSON.stringify(name)}`, () => assert.equal(shownName(name), shown));

test('a text of joiners is checked quickly', () => {
  const before = process.threadCpuUsage();
  assert.equal(isLegible('\u0646\u200c'.repeat(100_000)), false);
  assert.equal(isLegible('❤\ufe0f\u200d'.repeat(100_000)), false);
  assert.ok(process.threadCpuUsage(before).user < 1_000_000);
});
