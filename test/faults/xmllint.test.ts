/** libxml is stricter than any XML parser of this project: it must accept each document that Halcyon writes. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { renderXml } from '#hypermedia/xml.ts';
import { anyDocument } from '../setup/any-document.ts';

const naming = { baseUrl: 'https://api.example.com', relationPrefix: 'svc' };
const DOCUMENTS = 2_000;

test('xmllint accepts every document, and finds no undeclared namespace', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-xml-'));
  t.after(() => rm(folder, { recursive: true }));
  const files: string[] = [];
  for (const [index, document] of fc.sample(anyDocument, DOCUMENTS).entries()) {
    const file = join(folder, `${index}.xml`);
    await writeFile(file, renderXml(document, naming));
    files.push(file);
  }
  const { status, stderr, error } = spawnSync('/usr/bin/xmllint', ['--noout', '--nonet', ...files], {
    encoding: 'utf8',
  });
  assert.equal(error, undefined);
  assert.equal(stderr, '');
  assert.equal(status, 0);
});
