/** A fuzzer (schemathesis, from PyPI) finds no response of the server that contradicts /openapi.json, and no 5xx. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { amountOf } from '../setup/amount.ts';
import { startFurnishedApp, type FurnishedApp } from '../setup/app-with-resources.ts';
import { makePythonEnvironment, run } from './programs.ts';

const VERSION = '4.32.5';
/** For each of two tokens. */
const FUZZING_SECONDS = amountOf('fuzzing', { all: 90, part: 25 });

const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_schema_conformance',
];

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

test('no response to random requests contradicts the description', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-fuzzer-'));
  t.after(() => rm(folder, { recursive: true }));
  const programOf = await makePythonEnvironment(join(folder, 'venv'), [`schemathesis==${VERSION}`]);
  const app = await startFurnishedApp();
  const file = join(folder, 'openapi.json');
  await writeFile(file, JSON.stringify(await describedWithIds(app)));
  for (const [who, token] of Object.entries({ app: app.token, platform: app.platformToken })) {
    const words = `run ${file} --url ${app.baseUrl} --phases coverage,fuzzing --max-examples 20 --seed 1 --max-redirects 0`;
    const { code, out } = await run(programOf('schemathesis'), [
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
