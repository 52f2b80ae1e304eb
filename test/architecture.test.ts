/** The rules of ARCHITECTURE.md, checked on the real tree. architecture/ shows that each of them can fail. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  cycles,
  forbiddenImports,
  graphOf,
  loadedWith,
  misnamedImports,
  mutualFolders,
} from './architecture/modules.ts';
import { defaultExports, exportedArrows, repeatedNames, vagueNames } from './architecture/names.ts';
import {
  foreignWrites,
  mixedStatements,
  strayedSql,
  tablesOf,
  WRITERS,
  zonedStatements,
} from './architecture/tables.ts';
import { ellipticComments, namesOfMissingFiles, singleSections } from './architecture/comments.ts';
import { lateSetups } from './architecture/setups.ts';
import { readTree, type Rule } from './architecture/tree.ts';
import { replacedIn } from './architecture/vocabulary.ts';
import { clockReaders, formatNames, idleExceptions, processReaders } from './architecture/words.ts';

const ROOT = join(import.meta.dirname, '..');
/** The files whose words are checked. */
const PLAIN = [
  'src',
  'packages/receiver/src',
  'packages/receiver/README.md',
  'packages/receiver-python/src',
  'packages/receiver-python/tests',
  'packages/receiver-python/README.md',
  'packages/publisher/src',
  'packages/publisher/README.md',
  'packages/publisher-python/src',
  'packages/publisher-python/tests',
  'packages/publisher-python/README.md',
  'bench',
  'scripts',
  'migrations',
  'test',
  'docs',
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
];
const PACKAGES = ['packages/receiver/src', 'packages/publisher/src'];
const src = (await Promise.all(['src', ...PACKAGES].map((folder) => readTree(ROOT, folder)))).flat();
const all = [...src, ...(await readTree(ROOT, 'test'))];
const programs = (await Promise.all(['bench', 'scripts'].map((folder) => readTree(ROOT, folder)))).flat();

const rules: readonly (readonly [name: string, rule: Rule])[] = [
  ['a module imports only the modules that the table allows', forbiddenImports],
  ['an import is ./ inside a module and #module/ outside', misnamedImports],
  ['no cycle of files', cycles],
  ['no two folders of a module import each other', mutualFolders],
  ['SQL is in -sql.ts files and in db/', strayedSql],
  ['each table has one module that writes it', foreignWrites],
  ['no statement reads accounts and stores together', mixedStatements],
  ['no statement reads a time zone', zonedStatements],
  ['no default exports', defaultExports],
  ['functions are exported as declarations', exportedArrows],
  ['process is read by main.ts alone', processReaders],
  ["dates are the database's", clockReaders],
  ['no module names a format', formatNames],
  ['every exception is needed', idleExceptions],
  ['a comment begins with its noun', ellipticComments],
  ['no two files have one name', repeatedNames],
];

for (const [name, rule] of rules) test(name, () => assert.deepEqual(rule(src), []));

test('a file that a comment names exists', () => assert.deepEqual(namesOfMissingFiles([...all, ...programs]), []));

test('a file has several sections or none', () => assert.deepEqual(singleSections([...all, ...programs]), []));

test('every file has a name that describes its content', () => assert.deepEqual(vagueNames(all), []));

test('a test file awaits nothing after its first test', () => assert.deepEqual(lateSetups(all), []));

test('every table of the migrations has a module that writes it, and no other table is listed', async () => {
  const folder = join(ROOT, 'migrations');
  const names = (await readdir(folder)).filter((name) => /^\d{4}-.*\.sql$/.test(name));
  const migrations = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')));
  // src/db/migrate.ts creates the table of applied migrations before the first migration.
  const tables = [...migrations.flatMap(tablesOf), 'schema_migration'];
  assert.deepEqual(tables.toSorted(), Object.keys(WRITERS).toSorted());
});

test('no word has a private meaning', async () => assert.deepEqual(await replacedIn(ROOT, PLAIN), []));

test('a command loads no other command, and a process no library that it may never use', () => {
  const ofEach = loadedWith('src/main.ts', src);
  assert.deepEqual(
    [...ofEach].filter((name) => /^src\/(?!cli\/|core\/|db\/|server\/version|main)/.test(name)),
    [],
  );
  const ofProcess = loadedWith('src/server/app.ts', src);
  assert.ok(ofProcess.has('undici'), 'the packages are found');
  for (const library of ['@simplewebauthn/server', 'nodemailer', 'node:http', 'node:https'])
    assert.ok(!ofProcess.has(library), library);
});

test('the import graph', (t) => {
  const graph = graphOf(src);
  t.diagnostic('imports (from → to, how often):');
  for (const line of graph) t.diagnostic(`  ${line}`);
  // An empty graph would mean that the parser finds nothing, and then every rule above holds.
  assert.ok(src.flatMap(({ imports }) => imports).length > src.length, 'the files import one another');
});
