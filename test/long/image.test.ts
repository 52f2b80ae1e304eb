/** The image has all that its program reads, and the built program responds as the one that it is built from. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { isDeepStrictEqual, promisify } from 'node:util';
import { cleanups } from '../setup/cleanups.ts';
import { databaseEnvOf, testDatabase } from '../setup/database.ts';
import { startProgram } from '../setup/fleet/program.ts';
import { freePort } from '../setup/free-port.ts';

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string): Promise<string> => readFile(join(ROOT, path), 'utf8');

/** Copies and builds what the last stage of the Containerfile has, without packages that the clone has beside it. */
async function makeImage(folder: string): Promise<void> {
  const text = await read('deploy/Containerfile');
  const image = text.slice(text.lastIndexOf('\nFROM '));
  const ignored = (await read('.dockerignore')).split('\n');
  for (const [, path = ''] of image.matchAll(/^COPY (?!--from)(\S+) \.\/?\S*$/gm)) {
    assert.ok(ignored.includes(`!${path}`), `${path} is not in the context of the build`);
    await cp(join(ROOT, path), join(folder, path), { recursive: true });
  }
  assert.match(image, /^COPY --from=program \/app\/dist \.\/dist$/m);
  await promisify(execFile)(process.execPath, [join(ROOT, 'scripts/build.mjs'), folder]);
}

/** The addresses that pages name in attributes, and those of the catalogues of the API. */
const addressesIn = (page: string): string[] =>
  [...page.matchAll(/(?:href|src)="(\/[^"#]*)/g)].map(([, address = '']) => address.replaceAll('&amp;', '&'));

test('the built program serves each public page, document and script as its source does', async () => {
  const ends = cleanups();
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-image-'));
  ends.after(() => rm(folder, { recursive: true, force: true }));
  await makeImage(folder);
  const { address } = await testDatabase(ends);
  const start = async (root: string, program?: string): Promise<string> => {
    const port = String(await freePort());
    const env = {
      ...databaseEnvOf(address),
      PORT: port,
      BASE_URL: 'http://halcyon.example.test',
      HALCYON_SECRET_KEY: 'ab'.repeat(32),
      HALCYON_DATA: join(folder, 'data'),
    };
    const running = await startProgram({ root, args: ['serve'], env, ready: 'is ready.', program });
    ends.after(async () => void (await running.end('SIGTERM')));
    return `http://127.0.0.1:${port}`;
  };
  const [built, source] = [await start(folder, 'dist/server/main.js'), await start(ROOT)];

  const waiting = ['/', '/sign-in', '/docs', '/docs/receiving', '/rels', '/openapi.json', '/.well-known/jwks.json'];
  const seen = new Set(waiting);
  let compared = 0;
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const ask = async (origin: string) => {
      const response = await fetch(origin + path, { headers: { Accept: 'text/html, */*;q=0.5' }, redirect: 'manual' });
      return {
        status: response.status,
        text: (await response.text()).replaceAll(
          /id-[\w-]{12}|(?<=challenge&quot;:&quot;|name="(?:nonce|_key)" value=")[\w-]+/g,
          '',
        ),
      };
    };
    const [one, other] = [await ask(built), await ask(source)];
    assert.ok(isDeepStrictEqual(one, other), path);
    compared += 1;
    for (const next of addressesIn(other.text)) if (!seen.has(next)) waiting.push(next);
    for (const next of waiting) seen.add(next);
  }
  assert.ok(compared > 60, `${compared} addresses are compared`);
});
