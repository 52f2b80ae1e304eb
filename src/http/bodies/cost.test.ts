/** The processor time of any body within the limits, refused or read: nothing else runs in the process meanwhile. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Problem } from '#core/problem.ts';
import { amountOf } from '../../../test/setup/amount.ts';
import { parseBody } from './body.ts';

const RUNS = amountOf('body-cost', { all: 20, part: 6 });
const MIB = 1024 * 1024;
/** Of `POST …/events`, and of XML everywhere. */
const LIMITS = { json: 16 * MIB, form: 16 * MIB, xml: MIB };
type Format = keyof typeof LIMITS;
const TYPES = { json: 'application/json', form: 'application/x-www-form-urlencoded', xml: 'application/xml' };

/**
 * As a multiple of a body of one long text, which takes 20 to 45 ms of the thread. The dearest body takes 3.5 to 4.2 times as much; the slow
 * ones that the test looks for took 9 to 80 times. Of the whole process it was 4.6, and more beside other load: the garbage collector's threads.
 */
const COST_MAX = 5;

function cpuMs(run: () => void): number {
  const before = process.threadCpuUsage();
  run();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

/** The least of some, so that other work of the process does not count. Only refusals may be thrown. */
function costOf(format: Format, text: string, tries = 3): number {
  const bytes = Buffer.from(text).subarray(0, LIMITS[format]);
  const read = () => {
    try {
      parseBody(bytes, TYPES[format], { arrays: new Set(['events']), objects: new Set(['resource']) });
    } catch (error) {
      assert.ok(error instanceof Problem, String(error));
    }
  };
  const times: number[] = [];
  while (times.length < tries) times.push(cpuMs(read));
  return Math.min(...times);
}

/** `unit` repeated up to the limits of a body, at most `marks` times. */
function repeated(format: Format, unit: (n: number) => string, marks = Number.POSITIVE_INFINITY): string {
  const limit = LIMITS[format] - 64;
  const units: string[] = [];
  for (let [n, size] = [0, 0]; n < marks; n += 1) {
    const next = unit(n);
    size += next.length;
    if (size > limit || n >= 4_000_000) break;
    units.push(next);
  }
  return units.join('');
}
const same = (format: Format, unit: string): string => unit.repeat(Math.floor((LIMITS[format] - 64) / unit.length));
const list = (unit: (n: number) => string, marks = 149_000): string =>
  `[${repeated('json', (n) => `${unit(n)},`, marks)}0]`;
const xml = (content: string): string => `<resource>${content}</resource>`;

const CORPUS: readonly (readonly [name: string, format: Format, make: () => string])[] = [
  ['a long text', 'json', () => `"${same('json', 'x')}"`],
  ['a long text of two bytes a character', 'json', () => `"${'é'.repeat(8 * MIB - 64)}"`],
  ['a long text of four bytes a character', 'json', () => `"${'😀'.repeat(4 * MIB - 64)}"`],
  ['escapes of four digits', 'json', () => `"${same('json', '\\u00e9')}"`],
  ['escaped line ends', 'json', () => `"${same('json', '\\n')}"`],
  ['escaped quotes', 'json', () => `"${same('json', '\\"')}"`],
  ['escaped backslashes', 'json', () => `"${same('json', '\\\\')}"`],
  ['one number', 'json', () => same('json', '1')],
  ['spaces', 'json', () => `${same('json', ' ')}1`],
  ['numbers', 'json', () => list(() => '1234567890.1234567890e-30')],
  ['numbers that a double changes', 'json', () => list(() => '1234567890.12345678900')],
  ['short numbers that a double changes', 'json', () => list(() => '1.0')],
  ['members that a double changes', 'json', () => list(() => '{"a":1.0}')],
  ['as many numbers as may be kept', 'json', () => list(() => '{"a":1.0}', 49_900)],
  ['one number and a fraction', 'json', () => `1.${same('json', '1').slice(2)}`],
  ['texts', 'json', () => list((n) => `"${'s'.repeat(70)}${n}"`)],
  ['objects', 'json', () => list(() => '{"a":1}')],
  ['objects with different names', 'json', () => list((n) => `{"n${n}":1}`)],
  ['one object with different names', 'json', () => `{${repeated('json', (n) => `"n${n}":1,`, 149_000)}"z":1}`],
  ['as many different names as allowed', 'json', () => list((n) => `{"n${n % 1_490}":1}`)],
  ['as many names as may be distinct', 'json', () => list((n) => `{"n${n}":1}`, 19_900)],
  ['names without commas', 'json', () => same('json', '"a":')],
  ['quotes', 'json', () => same('json', '"')],
  ['texts without commas', 'json', () => same('json', 'a"')],
  ['arrays', 'json', () => list(() => '[{}]')],
  ['a name that occurs twice', 'json', () => `[${list(() => '{"a":1}')},{"b":1,"b":2}]`],
  ['nested too deep', 'json', () => '['.repeat(149_000)],
  ['invalid at the end', 'json', () => list(() => '{"a":1}').slice(0, -1)],
  ['fields', 'form', () => same('form', 'a=1&')],
  ['one long field', 'form', () => `a=${same('form', 'x')}`],
  ['plus signs', 'form', () => same('form', '+')],
  ['opening brackets', 'form', () => same('form', '[')],
  ['brackets with digits', 'form', () => same('form', '[1')],
  ['equals signs', 'form', () => same('form', '=')],
  ['percent sequences', 'form', () => `a=${same('form', '%C3%A9')}`],
  ['attributes', 'xml', () => `<resource ${repeated('xml', (n) => `a${n}="" `)}/>`],
  ['tags', 'xml', () => xml(same('xml', '<a/>'))],
  ['tags with attributes', 'xml', () => xml(same('xml', '<a b="" c=""/>'))],
  ['references', 'xml', () => xml(`<a>${same('xml', '&amp;')}</a>`)],
  ['comments', 'xml', () => xml(same('xml', '<!---->'))],
  ['text in pieces', 'xml', () => xml(same('xml', '<![CDATA[x]]>'))],
  ['a long name', 'xml', () => `<${same('xml', 'x')}/>`],
  ['never closed', 'xml', () => same('xml', '<a>')],
];

const LONG_TEXT = `"${same('json', 'x')}"`;
const baseline = costOf('json', LONG_TEXT);
const MEASURED_AGAIN = 4;
/** An expensive body is measured again: other processes may slow the machine down for a while. */
const isTooMuch = (format: Format, text: string, cost = costOf(format, text, 1)): boolean =>
  cost > COST_MAX * baseline &&
  Array.from({ length: MEASURED_AGAIN }).every(() => costOf(format, text) > COST_MAX * costOf('json', LONG_TEXT));

test('no body within the limits takes more processor time than other requests can wait for', (t) => {
  for (const [name, format, make] of CORPUS) {
    const text = make();
    const cost = costOf(format, text, 1);
    t.diagnostic(
      `${format.padEnd(5)}${(text.length / MIB).toFixed(1).padStart(5)} M ${cost.toFixed(0).padStart(4)} ms  ${name}`,
    );
    assert.ok(!isTooMuch(format, text, cost), `${format}, ${name}: ${cost} ms`);
  }
});

const piece = fc.oneof(
  fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"',
    '\\',
    '\\"',
    '\\u0041',
    '"a":',
    '1e9',
    ' ',
    'é',
    '<',
    '>',
    '</a>',
    '<a>',
    '&amp;',
    '=',
  ),
  fc.string({ maxLength: 5 }),
);
test('no short text repeated up to the limit does, either', () => {
  fc.assert(
    fc.property(
      fc.constantFrom('json' as const, 'form' as const, 'xml' as const),
      fc.array(piece, { minLength: 1, maxLength: 6 }),
      fc.constantFrom('', '"', '[', '{"a":"', '<resource>', '<resource><a>', '<resource a="'),
      (format, pieces, before) => {
        assert.ok(!isTooMuch(format, before + same(format, pieces.join('') || 'x')));
      },
    ),
    { numRuns: RUNS, endOnFailure: true },
  );
});
