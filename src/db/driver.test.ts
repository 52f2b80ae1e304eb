import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';

const DRIVER = new URL('driver.ts', import.meta.url).href;

const load = (...modules: string[]) =>
  promisify(execFile)(process.execPath, [
    '--input-type=module',
    '--eval',
    modules.map((module) => `await import(${JSON.stringify(module)});`).join('\n'),
  ]);

test('a driver that was loaded before it could be patched is refused', async () => {
  await load(DRIVER);
  await assert.rejects(load('postgres', DRIVER), /before it could be patched/);
});
