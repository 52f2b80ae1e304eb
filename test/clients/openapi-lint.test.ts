/** /openapi.json follows the recommended rules of Redocly; redocly.yaml has the exceptions. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { startTestApp } from '../setup/app.ts';

type Report = { problems: readonly { ruleId: string; message: string; location: readonly { pointer?: string }[] }[] };

const LINTER = join(import.meta.dirname, '../../node_modules/@redocly/cli/bin/cli.js');
const RULES = join(import.meta.dirname, 'redocly.yaml');
/** It sends nothing, and asks for no newer version. */
const OFFLINE = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };

const app = await startTestApp({ roles: ['serve'] });

test('the description has no problem that Redocly knows', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-lint-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = join(folder, 'openapi.json');
  await writeFile(file, await (await fetch(`${app.baseUrl}/openapi.json`)).text());
  const args = [LINTER, 'lint', file, '--config', RULES, '--format', 'json', '--max-problems', '1000'];
  const { stdout, stderr } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    env: { ...process.env, ...OFFLINE },
  });
  assert.ok(stdout.startsWith('{'), stderr);
  const { problems } = JSON.parse(stdout) as Report;
  assert.deepEqual(
    problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer ?? ''}`),
    [],
  );
});
