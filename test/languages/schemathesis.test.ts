/**
 * A fuzzer (schemathesis, from PyPI) finds no response of the server that contradicts /openapi.json, no 5xx, and no read that the
 * description allows and the server refuses.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { amountOf } from '../setup/amount.ts';
import { startFurnishedApp, type FurnishedApp } from '../setup/app-with-resources.ts';
import { makePythonEnvironment, run } from './programs.ts';

const VERSION = '4.32.5';
/** For each run. */
const FUZZING_SECONDS = amountOf('fuzzing', { all: 90, part: 25 });

const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_schema_conformance',
];

const FILTERS_MAX = 20;

type Parameter = { name: string; schema: object };
type Description = { paths: Record<string, { parameters?: Parameter[]; get?: { parameters?: Parameter[] } }> };

/** Returns the description with existing ids and relations: a fuzzer does not guess any. */
async function describedWithNames({ baseUrl, named }: FurnishedApp): Promise<Description> {
  const description = (await (await fetch(`${baseUrl}/openapi.json`)).json()) as Description;
  for (const [path, { parameters = [], get }] of Object.entries(description.paths)) {
    const values = { ...named, zoom: path.endsWith('{relation}') ? 'item_options' : 'customer' };
    for (const parameter of [...parameters, ...(get?.parameters ?? [])]) {
      const value = Object.entries(values).find(([name]) => name === parameter.name)?.[1];
      if (value !== undefined) parameter.schema = { enum: [/^\d+$/.test(value) ? Number(value) : value] };
    }
  }
  return description;
}

/** Returns the description of requests that are all accepted: what it narrows depends on the document, or on the other parameters. */
function acceptable(description: Description): Description {
  const narrowed = structuredClone(description);
  for (const { get } of Object.values(narrowed.paths)) {
    if (get?.parameters === undefined) continue;
    get.parameters = get.parameters.slice(0, FILTERS_MAX);
    for (const parameter of get.parameters) if (parameter.name === 'links') parameter.schema = { enum: ['self'] };
  }
  return narrowed;
}

test('no response to random requests contradicts the description', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-fuzzer-'));
  t.after(() => rm(folder, { recursive: true }));
  const programOf = await makePythonEnvironment(join(folder, 'venv'), [`schemathesis==${VERSION}`]);
  const app = await startFurnishedApp();
  const description = await describedWithNames(app);
  const [described, accepted] = [join(folder, 'openapi.json'), join(folder, 'accepted.json')];
  await writeFile(described, JSON.stringify(description));
  await writeFile(accepted, JSON.stringify(acceptable(description)));
  const all = `--phases coverage,fuzzing --checks ${CHECKS.join(',')} --header`;
  const reads = '--phases fuzzing --mode positive --include-method GET --checks positive_data_acceptance --header';
  const runs = {
    app: [described, all, app.token],
    platform: [described, all, app.platformToken],
    reads: [accepted, reads, app.token],
  } as const;
  for (const [who, [file, options, token]] of Object.entries(runs)) {
    const words = `run ${file} --url ${app.baseUrl} --max-examples 20 --seed 1 --max-redirects 0`;
    const { code, out } = await run(programOf('schemathesis'), [
      ...words.split(' '),
      // A stream does not end, and later requests need the resources.
      ...'--exclude-path-regex (?:stream|/authorize)$ --exclude-method DELETE --suppress-health-check all'.split(' '),
      ...`--max-time ${FUZZING_SECONDS} --no-color --warnings off ${options}`.split(' '),
      `Authorization: Bearer ${token}`,
    ]);
    assert.equal(code, 0, `${who}: ${out}`);
    t.diagnostic(`${who}: ${/\d+ generated, \d+ passed/.exec(out)?.[0] ?? out}`);
  }
});
