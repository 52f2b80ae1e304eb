import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countLoops, generate } from './mutators.ts';

/** Returns each mutation of the source as `from → to`. */
const changesOf = (source: string): string[] =>
  generate(source).map(({ start, end, text }) => `${source.slice(start, end)} → ${text}`);

const cases: readonly (readonly [source: string, changes: readonly string[]])[] = [
  ['if (a) b();', ['if (a) b(); → ', 'a → true', 'b(); → ;']],
  ['if (a) b(); else c();', ['a → true', 'a → false', 'b(); → ;', 'c(); → ;']],
  ['while (a < b) c();', ['a < b → false', '< → <=', 'c(); → ;']],
  ['const x = a === b;', ['=== → !==']],
  ['const x = a && b;', ['a && b → a', 'a && b → b', '&& → ||']],
  ['const x = a ?? b;', ['a ?? b → a', 'a ?? b → b']],
  ['const x = a ? b : c;', ['a ? b : c → b', 'a ? b : c → c']],
  ['const x = !a + -b * c;', ['!a → a', '+ → -', '-b → b', '* → /']],
  ['const x = `${a}` + b;', ['`${a}` → ``']],
  ['const f = () => a > b;', ['a > b → true', 'a > b → false', '> → >=']],
  ['function f() { a(); return b; }', ['{ a(); return b; } → {}', 'a(); → ', 'return b; → return;']],
  [
    "const x = [true, 'a', '', 1, 2];",
    ["[true, 'a', '', 1, 2] → []", 'true → false', "'a' → ''", "'' → 'mutated'", '1 → 0', '2 → 3'],
  ],
  ['const x = a?.b(c?.[d]);', ['?. → .', '?. → ']],
  ['const x = a.some(b).filter(c);', ['a.some(b).filter(c) → a.some(b)', 'some → every']],
  ['const x = { a: b };', ['{ a: b } → {}']],
  ['a += await b();', ['a += await b(); → ', '+= → -=']],
  ["switch (a) { case 'b': c(); d(); }", ["'b' → ''", 'c(); d(); → ', 'c(); → ', 'd(); → ']],
];

test('the operators of mutation tests are applied, and each result can be parsed', () => {
  for (const [source, changes] of cases) assert.deepEqual(changesOf(source).toSorted(), changes.toSorted());
});

test('types, imports, log messages, keys and the texts of errors are not mutated', () => {
  for (const source of [
    "import { a } from './a.ts';",
    "type A = 'a' | 1; export type { A };",
    "const a = b as 'c';",
    "const a: 'c' = b;",
    "log.warn({ count: 1 }, 'failed');",
    "const a = new TypeError('text');",
  ])
    assert.deepEqual(changesOf(source), []);
});

const sqlCases: readonly (readonly [sql: string, changes: readonly string[]])[] = [
  ['where a = ${b} and c', ['a = ${b} and  → ', '= → <>', 'and c → ', 'and → or']],
  ['where a between ${b} and c', ['where a between ${b} and c → ']],
  ["update t set a = 1, b = coalesce(${c}, 'x') where d", ["coalesce(${c}, 'x') → ${c}", 'where d → ']],
  ["-- and a = b\nwhere c = 'and a = b'", ["where c = 'and a = b' → ", '= → <>']],
  [
    'order by a desc limit ${b} for update skip locked',
    ['desc → asc', 'limit ${b} → ', 'for update skip locked → ', 'skip locked → '],
  ],
  ['on conflict (a) do nothing', ['on conflict (a) do nothing → ']],
  ['on conflict (a) do update set b = c returning d', ['do update set b = c → do nothing']],
  ['select min(a) union all select b', ['min → max', 'union all → union']],
  ["select a + interval '1 day'", [" + interval '1 day' → "]],
  [
    'where exists (select 1 where a or b) and c < d',
    ['exists (select 1 where a or b) and  → ', 'a or  → ', 'or b → ', 'or → and', 'and c < d → ', 'and → or', '< → <='],
  ],
];

test('SQL in a template is mutated as a whole, and the holes, comments and strings in it are not', () => {
  for (const [sql, changes] of sqlCases)
    assert.deepEqual(changesOf(`const x = sql\`${sql}\`;`).toSorted(), changes.toSorted());
});

test('only the wanted places are mutated', () => {
  const source = 'a();\nb();\n';
  assert.deepEqual(
    generate(source, (offset) => offset > 4),
    [{ start: 5, end: 9, text: '' }],
  );
});

test('every kind of loop counts its iterations, on the same lines', () => {
  const source = 'for (const a of b)\n  while (c) d();\nfor (;;) {\n  do e();\n  while (f);\n}';
  assert.equal(
    countLoops(source, 'n()'),
    'for (const a of b)\n  { n(); while (c) { n(); d(); } }\nfor (;;) { n();\n  do { n(); e(); }\n  while (f);\n}',
  );
});
