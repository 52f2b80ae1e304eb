import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { anyText } from '../../../test/setup/any-text.ts';
import { maskOf, masked } from './delivery-target.ts';

const hex = (code: number, length: number): string => code.toString(16).padStart(length, '0');
const percent = (character: string): string => [...Buffer.from(character)].map((byte) => `%${hex(byte, 2)}`).join('');

const codeOf = (character: string): number => character.codePointAt(0) ?? 0;
const json = (character: string): string =>
  character
    .split('')
    .map((unit) => `\\u${hex(unit.charCodeAt(0), 4)}`)
    .join('');
const LETTERS: Readonly<Record<string, string>> = { '\b': '\\b', '\f': '\\f', '\n': '\\n', '\r': '\\r', '\t': '\\t' };
const NAMES: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": 'apos' };

/** How encoders escape a character, and the characters that each of them always escapes; it may escape any others. */
const ENCODERS: Readonly<Record<string, readonly [escape: (character: string) => string, always: string]>> = {
  'in a URL': [percent, '%'],
  'in a URL, in upper case': [(character) => percent(character).toUpperCase(), '%'],
  'in a form': [(character) => (character === ' ' ? '+' : percent(character)), '%+ '],
  'in HTML, decimal': [(character) => `&#${codeOf(character)};`, '&'],
  'in HTML, of three digits': [(character) => `&#${String(codeOf(character)).padStart(3, '0')};`, '&'],
  'in HTML, hexadecimal': [(character) => `&#x${hex(codeOf(character), 2)};`, '&'],
  'in HTML, of six digits': [(character) => `&#x${hex(codeOf(character), 6)};`, '&'],
  'in HTML, by name': [(character) => `&${NAMES[character] ?? `#${codeOf(character)}`};`, '&'],
  'in JSON': [json, '\\'],
  'in JSON, after a backslash': [
    (character) => (/["\\/]/.test(character) ? `\\${character}` : (LETTERS[character] ?? json(character))),
    '\\',
  ],
  'as it is': [(character) => character, ''],
};

const secret = fc.oneof(
  fc.string({ unit: fc.constantFrom(...Array.from(`abAB01 +/=&<>%\\\n\r\t\b\f"'`)), minLength: 4, maxLength: 30 }),
  fc.string({ unit: 'grapheme-ascii', minLength: 4, maxLength: 30 }),
  anyText({ minLength: 4, maxLength: 30 }),
);
/** More than a secret has characters: one of them is in no secret, so it ends what comes before. */
const MARKS = Array.from({ length: 31 }, (_, at) => String.fromCodePoint(0x25_80 + at));
const maskFor = (key: string) =>
  maskOf({ url: new URL('https://example.com/'), headers: {}, encryptionKey: key, nextEncryptionKey: null });

for (const [how, [escape, always]] of Object.entries(ENCODERS)) {
  test(`a secret is masked, whichever of its characters are escaped: ${how}`, () => {
    const repeated = secret.chain((key) => {
      const characters = Array.from(key, (character) =>
        always.includes(character) ? fc.constant(escape(character)) : fc.constantFrom(character, escape(character)),
      );
      return fc.tuple(
        fc.constant(key),
        fc.tuple(...characters).map((written) => written.join('')),
      );
    });
    fc.assert(
      fc.property(repeated, ([key, written]) => {
        const mask = maskFor(key);
        assert.ok(mask !== undefined && Buffer.byteLength(written) <= mask.bytesMax);
        const before = MARKS.find((one) => !key.includes(one)) ?? '';
        assert.equal(masked(before + written, mask, Infinity), `${before}***`);
      }),
      { numRuns: 500 },
    );
  });
}

test('a secret that looks like an escape is masked, as it is and escaped once more', () => {
  for (const [key, written] of [
    ['Q&amp;A-key', 'Q&amp;amp;A-key'],
    ['100%25-key', '100%2525-key'],
    [String.raw`a&amp;%25\n-key`, String.raw`a&amp;amp;%25\n-key`],
    [String.raw`\u0041-key`, String.raw`\\u0041-key`],
  ] as const) {
    const mask = maskFor(key);
    assert.ok(mask);
    assert.deepEqual([masked(key, mask, Infinity), masked(written, mask, Infinity)], ['***', '***'], key);
  }
});

test('what is no secret is shown as it was written', () => {
  const mask = maskFor('a key of a webhook');
  assert.ok(mask);
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('a', ' ', '+', '%', '2', '&', 'amp;', '#', '\\', 'u', 'é', '😀') }),
      (text) => assert.equal(masked(text, mask, Infinity), text),
    ),
  );
});

const VALUES: readonly (readonly [header: string, repeated: string])[] = [
  ['Bearer Ab+/cdEFgh12/3456==', 'Ab%2B/cdEFgh12/3456%3D%3D'],
  ['key=Zz11yy22xx33', 'Zz11yy22xx33'],
  ['Digest username="ada", response="0a1b2c3d"', '0a1b2c3d'],
  ['t=1,v1="5f6e7d8c"', '5f6e7d8c'],
];
for (const [header, repeated] of VALUES) {
  test(`of the header value ${header} a response that has ${repeated} shows nothing`, () => {
    const target = { url: new URL('https://example.com/'), encryptionKey: null, nextEncryptionKey: null };
    const mask = maskOf({ ...target, headers: { 'X-Auth': header } });
    assert.ok(mask);
    assert.equal(masked(`<b>${repeated}</b>`, mask, Infinity), '<b>***</b>');
  });
}

test('a long response of escapes is masked quickly', () => {
  const mask = maskFor('&amp;&#38;%26\\u0026');
  assert.ok(mask);
  for (const piece of ['&amp;', '&#38;', '%26', '\\u0026', '&amp;&#38;%26\\u002', '&', '%', '\\']) {
    const before = process.threadCpuUsage();
    masked(piece.repeat(64 * 1024), mask, 16 * 1024);
    assert.ok(process.threadCpuUsage(before).user < 1_000_000, piece);
  }
});
