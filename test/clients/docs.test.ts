/** The snippets in docs/oauth-clients.md are the code that these tests run. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';

const DOCS = join(import.meta.dirname, '../../docs/oauth-clients.md');
const BEGIN = /^ *(?:\/\/|#) docs$/;
const END = /^ *(?:\/\/|#) end$/;

const indentOf = (line: string): number => line.length - line.trimStart().length;

function dedented(lines: readonly string[]): string {
  const indent = Math.min(...lines.filter((line) => line !== '').map(indentOf));
  return lines.map((line) => line.slice(indent)).join('\n');
}

/** Returns the marked parts of a file, with an empty line between them. */
function snippetOf(source: string): string {
  const lines = source.split('\n');
  const parts: string[] = [];
  let from: number | undefined;
  for (const [n, line] of lines.entries()) {
    if (BEGIN.test(line)) from = n + 1;
    if (from === undefined || !END.test(line)) continue;
    parts.push(dedented(lines.slice(from, n)));
    from = undefined;
  }
  return parts.join('\n\n');
}

async function snippets(): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const folder of ['node', 'python']) {
    const path = join(import.meta.dirname, folder);
    for (const name of (await readdir(path)).filter((file) => /\.(ts|py)$/.test(file)))
      found.set(`${folder}/${name}`, snippetOf(await readFile(join(path, name), 'utf8')));
  }
  return found;
}

async function fences(): Promise<string[]> {
  const text = await readFile(DOCS, 'utf8');
  return Array.from(text.matchAll(/^```\w+\n(.*?)\n```$/gms), ([, code = '']) => code);
}

test('each snippet of the documentation is code of a tested client, and each tested client has a snippet', async () => {
  const ran = await snippets();
  const shown = await fences();
  assert.equal(ran.size, 9);
  for (const [file, snippet] of ran) {
    const alike = shown.find((code) => code === snippet) ?? shown.find((code) => code.startsWith(snippet.slice(0, 40)));
    assert.equal(alike, snippet, `docs/oauth-clients.md shows what ${file} runs`);
  }
  assert.equal(shown.length, ran.size);
});
