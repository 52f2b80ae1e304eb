/** git ignores each file that the commands of the documents create: many have secrets, and a folder of Halcyon is a clone. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { filesOfProject, ROOT } from './page.ts';

/** Files of an example that have no secret, and are for the reader to keep or to delete. */
const WITHOUT_SECRETS: ReadonlySet<string> = new Set([
  'orders.jsonl',
  'history.jsonl',
  'payloads.ts',
  'out.tsv',
  'got',
  'headers',
  'body',
]);
/** A redirection, tee, or an option that names a file which the command writes. */
const WRITES = /(?:(?<![<0-9-])>{1,2} ?|\btee |--to |--key-file |--file=)(\.?[\w-][\w./-]*)(?=[\s)]|$)/g;

/** An archive of the tree has none. */
const skip = !existsSync(join(ROOT, '.git'));

test('git ignores the files that commands of the documents write', { skip }, async () => {
  const pages = filesOfProject().filter((path) => /^(?:README|docs\/[\w-]+)\.md$|^deploy\/compose\.yaml$/.test(path));
  const found = new Map<string, string>();
  for (const path of pages) {
    const text = await readFile(join(ROOT, path), 'utf8');
    const commands = path.endsWith('.md')
      ? [...text.matchAll(/```sh\n([^]*?)```/g)].map(([, block = '']) => block)
      : [text];
    for (const [, file = ''] of commands.join('\n').matchAll(WRITES)) found.set(file, path);
  }
  const files = [...found.keys()].filter((file) => !WITHOUT_SECRETS.has(file) && !/^\/|^postgres/.test(file));
  for (const file of ['platform.json', 'ada.json', 'halcyon.env', 'hook-key', 'halcyon.dump', 'deploy/.env'])
    assert.ok(files.includes(file), `${file} is found`);
  const ignored = (await promisify(execFile)('git', ['check-ignore', '--no-index', ...files], { cwd: ROOT })).stdout;
  assert.deepEqual(
    files.filter((file) => !ignored.split('\n').includes(file)).map((file) => `${file} (${found.get(file)})`),
    [],
  );
});
