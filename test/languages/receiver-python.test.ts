/** packages/receiver-python: its own tests, which read the same vectors as those of packages/receiver. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { VERSION } from '#server/version.ts';
import { needsPython, runPythonTests } from '../clients/python.ts';

const PACKAGE = join(import.meta.dirname, '../../packages/receiver-python');

test('the Python package passes its tests', needsPython('cryptography', 'python3-cryptography'), async (t) => {
  const report = await runPythonTests(PACKAGE);
  const names = [...report.matchAll(/^test_(\w+) .* ok$/gm)].map(([, name]) => name);
  t.diagnostic(names.join(', '));
  assert.ok(names.includes('vectors') && names.includes('readme'), report);
});

test('the Python package and its changelog have the version of the project', async () => {
  const read = (name: string) => readFile(join(PACKAGE, name), 'utf8');
  assert.equal(/^version = "(.*)"$/m.exec(await read('pyproject.toml'))?.[1], VERSION);
  assert.ok((await read('CHANGELOG.md')).includes(`\n## ${VERSION}`));
});
