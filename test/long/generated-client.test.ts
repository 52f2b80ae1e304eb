/** /openapi.json generates a client: typescript/walk.ts compiles with the types of openapi-typescript, and runs with openapi-fetch. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { startTestApp } from '../setup/app.ts';
import { cleanups } from '../setup/cleanups.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '../..');
const SOURCE = join(import.meta.dirname, '../clients/typescript');
const GENERATOR = join(SOURCE, 'node_modules/openapi-typescript/bin/cli.js');
const COMPILER = join(ROOT, 'node_modules/typescript/bin/tsc');

const compilerOptions = {
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  noPropertyAccessFromIndexSignature: true,
  module: 'nodenext',
  target: 'esnext',
  types: ['node'],
  rewriteRelativeImportExtensions: true,
  erasableSyntaxOnly: true,
};

const ends = cleanups();
const app = await startTestApp({ roles: ['serve'] });

/** A folder from which the packages of the project are found. */
async function makeFolder(): Promise<string> {
  const cache = join(ROOT, 'node_modules/.cache');
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, 'generated-client-'));
  ends.after(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['walk.ts'] }));
  await copyFile(join(SOURCE, 'walk.ts'), join(folder, 'walk.ts'));
  return folder;
}

test('a generated client compiles, and walks from home to a webhook and an event', async () => {
  const folder = await makeFolder();
  await run(process.execPath, [GENERATOR, `${app.baseUrl}/openapi.json`, '-o', join(folder, 'api.ts')]);
  const { stdout: faults } = await run(process.execPath, [COMPILER, '-p', folder]);
  assert.equal(faults, '');

  const published = { event: 'transaction/created', resource: { id: 70_012, total_order: 58 } };
  const { status } = await app.api('POST', `/stores/${app.storeId}/events`, {
    token: app.platformToken,
    body: published,
  });
  assert.equal(status, 201);
  const env = { ...process.env, BASE_URL: app.baseUrl, TOKEN: app.token };
  const { stdout } = await run(process.execPath, [join(folder, 'walk.js')], { env });
  const { webhookId, ...walked } = JSON.parse(stdout) as { webhookId: number };
  assert.ok(Number.isInteger(webhookId));
  assert.deepEqual(walked, {
    store: 'Test Store',
    isActive: '1',
    reason: null,
    listed: [`${webhookId} Orders`],
    total: '1',
    event: 'transaction/created',
    error: 'not_found',
    unknown: [null, 'number', 'json'],
  });
});
