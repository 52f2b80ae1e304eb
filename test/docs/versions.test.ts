/** One version: the server serves the packages of its own version only, the changelog says which is the last, and the documents name it. */
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { VERSION } from '#server/version.ts';

const ROOT = join(import.meta.dirname, '../..');
const WRITTEN: Record<string, RegExp> = {
  json: /^ {2}"version": "(.*)",$/m,
  toml: /^version = "(.*)"$/m,
  md: /^## v?(\d[\d.]*) /m,
};
const FILES = globSync(
  ['package.json', 'CHANGELOG.md', 'packages/*/{package.json,jsr.json,pyproject.toml,CHANGELOG.md}'],
  {
    cwd: ROOT,
  },
);

test('the files of the server and of its packages are found', () => assert.ok(FILES.length >= 12, String(FILES)));

for (const file of FILES) {
  test(`${file} has the version of the server`, async () => {
    const pattern = WRITTEN[file.split('.').at(-1) ?? ''] ?? assert.fail(file);
    assert.equal(pattern.exec(await readFile(join(ROOT, file), 'utf8'))?.[1], VERSION);
  });
}

for (const file of ['docs/receiving.md', ...globSync('packages/*/README.md', { cwd: ROOT })]) {
  test(`${file} names the version of the server`, async () => {
    const named = (await readFile(join(ROOT, file), 'utf8')).matchAll(
      /(?:Halcyon\/|\/docs\/packages\/\S+?-)(\d+\.\d+\.\d+)/g,
    );
    assert.deepEqual(
      [...named].map(([, version]) => version),
      [VERSION],
    );
  });
}
