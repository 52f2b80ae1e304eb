/** A fuzzer (schemathesis, from PyPI) finds no response of the server that contradicts /openapi.json, and no 5xx. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import { amountOf } from '../setup/amount.ts';
import { startFurnishedApp, type FurnishedApp } from '../setup/app-with-resources.ts';

const VERSION = '4.32.5';
/** For each of two tokens. */
const FUZZING_SECONDS = amountOf('fuzzing', { all: 90, part: 25 });

const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_schema_conformance',
];

async function run(command: string, args: readonly string[]): Promise<{ code: number | null; out: string }> {
  const child = spawn(command, args, { cwd: tmpdir(), stdio: ['ignore', 'pipe', 'inherit'] });
  const [out, [code]] = await Promise.all([text(child.stdout), once(child, 'close') as Promise<[number | null]>]);
  return { code, out };
}

type Parameter = { name: string; schema: object };
type Description = { paths: Record<string, { parameters?: Parameter[] }> };

/** Returns the description with the ids of existing resources in paths: a fuzzer does not guess any. */
async function describedWithIds({ baseUrl, named }: FurnishedApp): Promise<Description> {
  const description = (await (await fetch(`${baseUrl}/openapi.json`)).json()) as Description;
  for (const parameter of Object.values(description.paths).flatMap(({ parameters = [] }) => parameters)) {
    const value = named[parameter.name];
    if (value === undefined) continue;
    parameter.schema = { enum: [/^\d+$/.test(value) ? Number(value) : value] };
  }
  return description;
}

async function installed(t: TestContext): Promise<{ folder: string; program: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-fuzzer-'));
  t.after(() => rm(folder, { recursive: true }));
  assert.equal((await run('python3', ['-m', 'venv', join(folder, 'venv')])).code, 0);
  const pip = await run(join(folder, 'venv/bin/pip'), ['install', '--quiet', `schemathesis==${VERSION}`]);
  assert.equal(pip.code, 0, pip.out);
  return { folder, program: join(folder, 'venv/bin/schemathesis') };
}

test('no response to random requests contradicts the description', async (t) => {
  const { folder, program } = await installed(t);
  const app = await startFurnishedApp();
  const file = join(folder, 'openapi.json');
  await writeFile(file, JSON.stringify(await describedWithIds(app)));
  for (const [who, token] of Object.entries({ app: app.token, platform: app.platformToken })) {
    const words = `run ${file} --url ${app.baseUrl} --phases coverage,fuzzing --max-examples 20 --seed 1 --max-redirects 0`;
    const { code, out } = await run(program, [
      ...words.split(' '),
      // A stream does not end, and later requests need the resources.
      ...'--exclude-path-regex stream$ --exclude-method DELETE --suppress-health-check all'.split(' '),
      ...`--checks ${CHECKS.join(',')} --max-time ${FUZZING_SECONDS} --no-color --warnings off`.split(' '),
      '--header',
      `Authorization: Bearer ${token}`,
    ]);
    assert.equal(code, 0, `${who}: ${out}`);
    t.diagnostic(`${who}: ${/\d+ generated, \d+ passed/.exec(out)?.[0] ?? out}`);
  }
});
