import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSource } from './source.ts';
import { importsOf } from './tree.ts';

const specifiers = (text: string): string[] =>
  importsOf('src/a/x.ts', readSource(text)).map(({ specifier }) => specifier);
const typeOnly = (text: string): boolean[] =>
  importsOf('src/a/x.ts', readSource(text)).map(({ isTypeOnly }) => isTypeOnly);

const found: readonly (readonly [name: string, text: string, expected: string[]])[] = [
  ['named', `import { a } from './a.ts';`, ['./a.ts']],
  ['over several lines', `import {\n  a,\n  type B,\n} from './a.ts';`, ['./a.ts']],
  ['two in a row', `import a from "a";\nimport * as b from 'b';`, ['a', 'b']],
  ['for its effect', `import './a.ts';`, ['./a.ts']],
  ['a type', `import type { A } from '#a/b.ts';`, ['#a/b.ts']],
  ['a re-export', `export { a } from './a.ts';\nexport * from './b.ts';`, ['./a.ts', './b.ts']],
  ['after an emoji', `const a = '🎉🎉';\nimport b from './b.ts';`, ['./b.ts']],
  ['with attributes', `import data from './a.json' with { type: 'json' };`, ['./a.json']],
  ['dynamic', `const a = await import('./a.ts');`, ['./a.ts']],
  ['of a type', `let a: typeof import('./a.ts');`, ['./a.ts']],
  ['computed', 'const a = await import(name);', ['import()']],
  ['by a template', 'const a = await import(`./${name}.ts`);', ['import()']],
  ['after a media range', `const all = 'text/*';\nimport { a } from './a.ts';`, ['./a.ts']],
  ['after a quote in a regular expression', `const quote = /['"\`/]/;\nimport { a } from './a.ts';`, ['./a.ts']],
  ['inside of a template', "const a = `x ${await import('./a.ts')} y`;", ['./a.ts']],
  ['not in a comment', `// import './a.ts';\n/* import './b.ts'; */`, []],
  ['not in a string', `const a = "import './a.ts'";\nconst b = \`import './b.ts'\`;`, []],
  ['not in an export of a value', `export const a = './a.ts';`, []],
  ['not import.meta', `const a = join(import.meta.dirname, './a.ts');`, []],
];

for (const [name, text, expected] of found) {
  test(`an import is found: ${name}`, () => assert.deepEqual(specifiers(text), expected));
}

test('only erased imports are type-only', () => {
  const text = `import type { A } from 'a';\nimport { type B } from 'b';\nimport type from 'c';\nexport type { D } from 'd';`;
  assert.deepEqual(typeOnly(text), [true, false, false, true]);
});

const tags = (text: string): string[] => readSource(text).templates.map(({ tag }) => tag);

test('the tag of a template is found behind type arguments', () => {
  assert.deepEqual(tags('await sql<{ n: number }[]>`x`'), ['sql']);
  assert.deepEqual(tags('sql<\n  Map<A, () => B>\n>`x`'), ['sql']);
  assert.deepEqual(tags('const f = () => `x`; return `y`;'), ['', '']);
});

test('a template in a substitution is a template of its own', () => {
  const { templates, bare } = readSource('sql`a ${html`b ${{ c: "}" }}`} d`; after');
  assert.deepEqual(
    templates.map(({ tag, text }) => [tag, text]),
    [
      ['sql', 'a ${} d'],
      ['html', 'b ${}'],
    ],
  );
  assert.match(bare, /; after$/);
});

test('blanking keeps every line in its place', () => {
  const text = "// one\nconst a = 'two'; /* three\nfour */ const b = `\n${a / 2 / 3}`;\n";
  const { code, bare } = readSource(text);
  assert.equal(code, "      \nconst a = 'two';         \n        const b = `\n${a / 2 / 3}`;\n");
  assert.equal(bare, "      \nconst a = '   ';         \n        const b =  \n  a / 2 / 3  ;\n");
});
