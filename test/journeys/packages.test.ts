/** The packages for receivers and publishers that the server itself offers, because no public registry has them. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { VERSION } from '#server/version.ts';
import { startTestApp } from '../setup/app.ts';
import { cleanups } from '../setup/cleanups.ts';

const TARBALL = `halcyon-receiver-${VERSION}.tgz`;
const WHEEL = `halcyon_receiver-${VERSION}-py3-none-any.whl`;

const ends = cleanups();
const packagesDir = await mkdtemp(join(tmpdir(), 'halcyon-packages-'));
ends.after(() => rm(packagesDir, { recursive: true }));
for (const file of [TARBALL, WHEEL, 'halcyon-receiver-0.0.1.tgz']) await writeFile(join(packagesDir, file), file);

/** Returns the commands of the page and of the document, which must be the same. */
async function commandsOf(baseUrl: string): Promise<(string | null)[]> {
  const read = (type: string) => fetch(`${baseUrl}/docs/receiving`, { headers: { Accept: type } });
  const page = await (await read('text/html')).text();
  const { packages } = (await (await read('application/json')).json()) as { packages: Record<string, string | null> };
  const commands = ['npm', 'python'].map((tool) => packages[tool] ?? null);
  for (const command of commands)
    if (command !== null) assert.ok(page.includes(command.replaceAll('&', '&amp;')), command);
  assert.equal(
    page.includes('npm run packages'),
    commands.every((command) => command === null),
  );
  return commands;
}

test('a server that has built packages names and serves those of its version, and nothing else', async () => {
  const { baseUrl } = await startTestApp({ roles: ['serve'], packagesDir });
  const at = `${baseUrl}/docs/packages`;
  assert.deepEqual(await commandsOf(baseUrl), [`npm install ${at}/${TARBALL}`, `pip install ${at}/${WHEEL}`]);
  for (const [file, type] of [
    [TARBALL, 'application/gzip'],
    [WHEEL, 'application/zip'],
  ] as const) {
    const response = await fetch(`${at}/${file}`);
    assert.deepEqual([response.status, response.headers.get('content-type'), await response.text()], [200, type, file]);
  }
  for (const file of ['halcyon-receiver-0.0.1.tgz', `halcyon-publisher-${VERSION}.tgz`, '..%2Fpackage.json'])
    assert.equal((await fetch(`${at}/${file}`)).status, 404, file);
});

test('a server without packages says how they are built', async () => {
  const { baseUrl } = await startTestApp({ roles: ['serve'] });
  assert.deepEqual(await commandsOf(baseUrl), [null, null]);
});

test('a server whose operator has registries names these', async () => {
  const env = { NPM_REGISTRY: 'https://npm.example.com/all/', PYTHON_INDEX: 'https://pypi.example.com/simple' };
  const { baseUrl } = await startTestApp({ roles: ['serve'], packagesDir, env });
  assert.deepEqual(await commandsOf(baseUrl), [
    'npm config set --location=project @halcyon:registry=https://npm.example.com/all && npm install @halcyon/receiver',
    'pip install --index-url https://pypi.example.com/simple halcyon-receiver',
  ]);
});
