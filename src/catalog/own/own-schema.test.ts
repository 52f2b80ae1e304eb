/** The members that the faults of a resource name. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { JsonObject } from '../resource-document.ts';
import { compileCheck, LinearPattern, namePatternFault, patternFault } from './own-schema.ts';

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

/** Each part of the syntax of ECMA-262 with the flag u that is possible. */
// oxfmt-ignore
const PARTS = [
  'a', 'b', '.', '^', '$', '/', String.raw`\/`, '[ab]', '[^a]', '[a-c-]', '[]', '[^]', '[[:alpha:]', String.raw`[\]\-\\]`, String.raw`[\b\0]`,
  String.raw`\d`, String.raw`\D`, String.raw`\w`, String.raw`\W`, String.raw`\s`, String.raw`\S`, String.raw`[\s\d]`, String.raw`[^\S]`, String.raw`[\Sa]`,
  String.raw`\b`, String.raw`\B`, String.raw`\n`, String.raw`\v`, String.raw`\f`, String.raw`\cJ`, String.raw`\0`, String.raw`\x61`, String.raw`\u00e9`,
  String.raw`\u{1F600}`, String.raw`\ud83d\ude00`, String.raw`[\u{1F600}-\u{1F64F}]`, '😀', 'é', String.raw`\p{L}`, String.raw`\P{Lu}`,
  String.raw`\p{Script=Greek}`, String.raw`[\p{gc=Nd}_]`, '(a|b)', '(?:ab)', '(?<name>a)', String.raw`\.`, String.raw`\*`, '(?:)',
];
const QUANTIFIERS = ['', '', '', '*', '+', '?', '+?', '{2}', '{1,2}', '{0,}'];
const isQuantifiable = (part: string): boolean => !/^(?:\^|\$|\\[bB])$/.test(part);

const pattern = fc
  .array(fc.tuple(fc.constantFrom(...PARTS), fc.constantFrom(...QUANTIFIERS)), { minLength: 1, maxLength: 4 })
  .map((parts) => parts.map(([part, times]) => part + (isQuantifiable(part) ? times : '')).join(''))
  // A name of a group is possible once.
  .filter((source) => source.split('(?<name>').length <= 2);
const CHARACTERS = Array.from(
  'aabbcAZ09_-./:[]\\*$^é😀αΑ\0\b\t\n\v\f\r \u00a0\u0085\u1680\u2003\u2028\u3000\ufeff\u200b\u180e',
);
const text = fc.array(fc.constantFrom(...CHARACTERS), { maxLength: 6 }).map((all) => all.join(''));

test('a pattern matches what it matches in JavaScript', () => {
  fc.assert(
    fc.property(pattern, fc.array(text, { minLength: 20, maxLength: 20 }), (source, texts) => {
      const [linear, reference] = [new LinearPattern(source), new RegExp(source, 'u')];
      // V8 is wrong about pairs of surrogates: it finds \B inside them, and not the end after [^a] or a range of them.
      const isOdd = (one: string): boolean => /\\B|\$/.test(source) && /[\ud800-\udfff]/.test(one);
      for (const one of [...texts, ...CHARACTERS].filter((each) => !isOdd(each)))
        assert.equal(linear.test(one), reference.test(one), JSON.stringify(one));
    }),
    { numRuns: 1_500 },
  );
});

/** On the engine of JavaScript, the first takes 8 s for 30 characters, and the others minutes for the longest text. */
const SLOW = ['^(a+)+$', '^(a|a)*$', '^(a|aa)+$', 'a*a*b$', '(?:a?){40}b', String.raw`\s+$|a+$`];

test('no pattern takes more than a part of a second for a text of 256 KiB', () => {
  for (const source of SLOW) {
    const check = compileCheck({ properties: { text: { type: 'string', pattern: source } } });
    const body = JSON.stringify({ text: `${'a'.repeat(256 * 1024)}!` });
    const { user, system } = process.cpuUsage();
    assert.deepEqual(
      check(body).map(({ field }) => field),
      ['resource.text'],
      source,
    );
    const used = process.cpuUsage({ user, system });
    assert.ok(used.user + used.system < 2_000_000, `${source}: ${used.user + used.system} µs`);
  }
});

test('a fault names the pattern as it is written', () => {
  const [fault] = compileCheck({ properties: { a: { pattern: '^/a$' } } })('{"a":"b"}');
  assert.match(fault?.message ?? '', /"\^\/a\$"/);
  const named = compileCheck({ properties: { pattern: { type: 'string' } }, required: ['pattern'] });
  assert.deepEqual(named('{"pattern":"("}'), [], 'a member of this name is no pattern');
});

test('patterns with look-around, references to groups and flags are refused', () => {
  const refused = [
    '(?=a)',
    '(?!a)',
    '(?<=a)b',
    '(?<!a)b',
    String.raw`(a)\1`,
    String.raw`(?<n>a)\k<n>`,
    '(?i:a)',
    'a{1001}',
  ];
  for (const source of refused) assert.match(patternFault(source) ?? '', /look-around/, source);
  for (const source of PARTS) assert.equal(patternFault(source), undefined, source);
});

test('a pattern of names is possible if it has one way to match', () => {
  for (const source of ['^x_', '_id$', '^[a-z]{2}$', '^[^|(+]+$', String.raw`^\d+\.`, 'x', '', '^a{2,3}$'])
    assert.equal(namePatternFault(source), undefined, source);
  for (const source of [
    'a+$',
    '^a*a*$',
    '^(a+)+$',
    '^(a|a)$',
    'a|b',
    '^a?b?$',
    '^(?=a)',
    String.raw`^(a)\1`,
    '^a{1,}b{1,}$',
  ])
    assert.notEqual(namePatternFault(source), undefined, source);
});
