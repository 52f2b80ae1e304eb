/** First starts that cannot succeed: each ends with one line that says what to do, and a start after that succeeds. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { runProcess } from '../setup/command.ts';
import { startProgram } from '../setup/fleet/program.ts';
import { isRoot } from '../setup/embedded-process.ts';
import { placeForFixture, startFixture } from '../setup/fixture.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '../..');
const asRoot = { skip: isRoot ? false : 'only root mounts a disk' };

/** Asserts the output of a failing start: one line on standard error, nothing else, and exit code 1. */
async function failure(env: Record<string, string>): Promise<string> {
  const { code, out, err } = await runProcess(['serve'], env);
  assert.deepEqual([code, out], [1, ''], err);
  assert.match(err, /^halcyon: [^\n]+\n$/);
  return err;
}

async function succeeds(env: Record<string, string>): Promise<void> {
  const program = await startProgram({ root: ROOT, args: ['serve'], env, ready: 'is ready.' });
  assert.equal(await program.end('SIGTERM'), 0, program.said());
}

/** A data folder on a file system of its own. */
async function mounted(t: TestContext, options: string) {
  const place = await placeForFixture();
  const disk = await mkdtemp(join(tmpdir(), 'halcyon-disk-'));
  await run('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', disk]);
  t.after(async () => {
    await run('umount', ['--lazy', disk]);
    await rm(disk, { recursive: true });
    await place.remove();
  });
  return { disk, env: { ...place.env, HALCYON_DATA: join(disk, 'data') } };
}

/** From a disk that is full before initdb begins to one that is full while tables are created. */
for (const kilobytes of [4, 16, 512, 8_192, 20_000, 28_000, 36_000, 42_000]) {
  test(`a disk of ${kilobytes} kB is reported as full, and is enough after it has grown`, asRoot, async (t) => {
    const { disk, env } = await mounted(t, `size=${kilobytes}k,mode=0755`);
    assert.match(await failure(env), /[Ff]ree space/);
    await run('mount', ['-o', 'remount,size=400m', disk]);
    await succeeds(env);
  });
}

test('a folder that cannot be written, because its file system is read-only', asRoot, async (t) => {
  const { env } = await mounted(t, 'ro');
  assert.match(await failure(env), /cannot be written \(EROFS\).*HALCYON_DATA/);
});

test('a folder that cannot be created, below /proc', async (t) => {
  const place = await placeForFixture();
  t.after(() => place.remove());
  // Node's own recursive `mkdir` never ends there: the limit of processor time ends it.
  const limited = ['-c', 'ulimit -t 20 && exec "$@"', 'sh', process.execPath, join(ROOT, 'src/main.ts'), 'serve'];
  for (const HALCYON_DATA of ['/proc/none', '/proc/none/x/y']) {
    await assert.rejects(run('sh', limited, { env: { ...place.env, HALCYON_DATA } }), (error) => {
      const { code, stderr } = error as { code: unknown; stderr: string };
      assert.match(stderr, /^halcyon: [^\n]*\/proc\/none[^\n]* cannot be written [^\n]*HALCYON_DATA[^\n]*\n$/);
      assert.equal(code, 1);
      return true;
    });
  }
});

const strays: readonly (readonly [path: string, make: (path: string) => Promise<unknown>, line: RegExp])[] = [
  ['postgres', (path) => writeFile(path, 'x'), /a file in its place/],
  ['postgres/data', (path) => writeFile(path, 'x'), /postgres\/data is not a PostgreSQL cluster: /],
  ['postgres/data', (path) => mkdir(path), /postgres\/data is not a PostgreSQL cluster: /],
  ['postgres-password', (path) => mkdir(path), /postgres-password cannot be read \(EISDIR\)/],
  ['secret-key', (path) => mkdir(path), /secret-key cannot be read \(EISDIR\)/],
  ['secret-key', (path) => writeFile(path, 'x'), /secret-key is no secret key/],
  ['demo.json', (path) => mkdir(path), /demo\.json cannot be read \(EISDIR\)/],
  ['demo.json', (path) => writeFile(path, '{'), /demo\.json cannot be read \(SyntaxError\)/],
];
for (const [index, [path, make, line]] of strays.entries()) {
  test(`stray ${index + 1}: an unrelated file is at ${path}`, async (t) => {
    const place = await placeForFixture();
    t.after(() => place.remove());
    const stray = join(place.dataDir, path);
    if (path.startsWith('postgres/')) await mkdir(join(place.dataDir, 'postgres'));
    await make(stray);
    assert.match(await failure(place.env), line);
    await rm(stray, { recursive: true });
    await succeeds(place.env);
  });
}

test('a folder that the user of the database cannot write', async (t) => {
  const place = await placeForFixture();
  t.after(() => place.remove());
  const home = join(place.dataDir, 'postgres');
  await mkdir(home);
  // Of a user that is neither root nor taken over: PostgreSQL runs as that one.
  if (isRoot) await run('chown', ['1:1', home]);
  await chmod(home, 0o500);
  assert.match(await failure(place.env), /PostgreSQL did not start .*: .*Permission denied|cannot be written/);
});

test('a PORT in use ends the start; a port of the demo receiver in use only fails its deliveries', async (t) => {
  const place = await placeForFixture();
  t.after(() => place.remove());
  const take = async (port: number) => {
    // Deliveries that the first start left may connect to it: it would wait for ever for connections that nothing reads.
    const server = createServer((socket) => socket.destroy()).listen(port, '127.0.0.1');
    await once(server, 'listening');
    return () => new Promise((closed) => server.close(closed));
  };
  const port = Number(place.env['PORT']);
  const release = await take(port);
  assert.match(await failure(place.env), /Port \d+ on 127\.0\.0\.1 is taken: .*PORT/);
  await release();
  const first = await startFixture(place);
  assert.equal(await first.end('SIGTERM'), 0);
  const receiver = Number(new URL(first.demo.receiver.url).port);
  const giveBack = await take(receiver);
  t.after(giveBack);
  const second = await startFixture(place);
  assert.match(second.output(), new RegExp(`^Port ${receiver} of the demo receiver is taken: .*$`, 'm'));
  assert.equal(await second.end('SIGTERM'), 0);
});
