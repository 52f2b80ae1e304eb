import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { testDatabase } from '../../test/setup/database.ts';

const { sql } = await testDatabase();

async function momentOf(written: string): Promise<string | null> {
  const [row] = await sql<{ at: Date | null }[]>`select moment_of(${written}) as at`;
  return row?.at?.toISOString() ?? null;
}

const moments: readonly (readonly [written: string, at: string | null])[] = [
  ['2026-11-20', '2026-11-20T00:00:00.000Z'],
  ['2026-11-20T16:05:03+0100', '2026-11-20T15:05:03.000Z'],
  ['2026-11-20 16:05:03.250Z', '2026-11-20T16:05:03.250Z'],
  ['2024-02-29', '2024-02-29T00:00:00.000Z'],
  ['2026-02-29', null],
  ['2026-04-31', null],
  ['2026-13-01', null],
  ['0000-01-01', null],
  ['2026-11-20T24:00', null],
  ['2026-11-20T16:05:03+9900', null],
  ['infinity', null],
  ['', null],
];
for (const [written, at] of moments) {
  test(`"${written}" is ${at === null ? 'not a timestamp' : 'a timestamp'}`, async () => {
    assert.equal(await momentOf(written), at);
  });
}

test('a number is recognized in every spelling that JSON has, and in no other', async () => {
  const texts = [
    '7',
    '-0.50',
    '1e21',
    '1e308',
    '1E-7',
    '1e9999',
    '0x10',
    'NaN',
    'Infinity',
    '1_000',
    ' 7',
    '9'.repeat(80),
  ];
  const rows = await sql<{ n: string | null }[]>`
    select trim_scale(number_of(t))::text as n from unnest(${texts}::text[]) with ordinality as u (t, at) order by at`;
  const expected = ['7', '-0.5', `1${'0'.repeat(21)}`, `1${'0'.repeat(308)}`, '0.0000001'];
  assert.deepEqual(
    rows.map(({ n }) => n),
    [...expected, ...Array.from({ length: texts.length - expected.length }, () => null)],
  );
});

test('no text that a publisher may write makes a search fail', async () => {
  const digits = (count: number) => fc.stringMatching(new RegExp(`^[0-9]{${count}}$`));
  const nearDate = fc
    .tuple(
      digits(4),
      digits(2),
      digits(2),
      fc.constantFrom('', 'T10:00', ' 23:59:60', 'T10:00:00.9999999999Z', 'T00:00-1460'),
    )
    .map(([year, month, day, rest]) => `${year}-${month}-${day}${rest}`);
  const nearNumber = fc.stringMatching(/^-?[0-9]{1,70}\.?[0-9]{0,9}e?[+-]?[0-9]{0,5}$/);
  const texts = fc.array(fc.oneof(nearDate, nearNumber, fc.string()), { maxLength: 200 });
  await fc.assert(
    fc.asyncProperty(texts, async (all) => {
      const given = all.map((text) => text.replaceAll('\0', '').toWellFormed());
      const [row] = await sql`select count(moment_of(t)), count(number_of(t)) from unnest(${given}::text[]) as t`;
      assert.ok(row);
    }),
    { numRuns: 50 },
  );
});
