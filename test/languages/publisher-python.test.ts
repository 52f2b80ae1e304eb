/** packages/publisher-python: its own tests, against the application. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { VERSION } from '#server/version.ts';
import { needsPython, runPythonTests } from '../clients/python.ts';
import { startTestApp } from '../setup/app.ts';

const PACKAGE = join(import.meta.dirname, '../../packages/publisher-python');

test('the Python package passes its tests', needsPython(), async (t) => {
  const app = await startTestApp({ roles: ['serve'] });
  const client = await createClient(app.sql, { name: 'Shop', redirectUris: [], trusted: true, now: app.clock.now() });
  const report = await runPythonTests(PACKAGE, {
    HALCYON_URL: app.baseUrl,
    HALCYON_CLIENT_ID: client.client_id,
    HALCYON_CLIENT_SECRET: client.client_secret,
  });
  const names = [...report.matchAll(/^test_(\w+) .*?(?:\n.*)?\.\.\. ok$/gm)].map(([, name]) => name);
  t.diagnostic(names.join(', '));
  assert.ok(
    ['faults', 'readme', 'retry_after'].every((name) => names.includes(name)),
    report,
  );
});

test('the Python package and its changelog have the version of the project', async () => {
  const read = (name: string) => readFile(join(PACKAGE, name), 'utf8');
  assert.equal(/^version = "(.*)"$/m.exec(await read('pyproject.toml'))?.[1], VERSION);
  assert.ok((await read('CHANGELOG.md')).includes(`\n## ${VERSION}`));
});
