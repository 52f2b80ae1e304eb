/** scripts/install.mjs in its own folder, with an npm that records how it was called. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';

const SCRIPT = 'scripts/install.mjs';
const NODE = 'node_modules/.bin/node';
const INSTALLED = 'node_modules/.package-lock.json';
const LOCK = 'package-lock.json';

/** Seconds since the epoch: only the order of the files matters. */
const OLD = 1_000_000_000;
const YOUNG = 1_000_000_001;

const NPM = `
import { writeFileSync } from 'node:fs';
writeFileSync('calls.json', JSON.stringify({ args: process.argv.slice(2), cwd: process.cwd() }));
process.exit(Number(process.env.NPM_EXIT_CODE));
`;

/** A project with these files, each of the given age. */
async function project(t: TestContext, files: Readonly<Record<string, number>>): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'halcyon-install-'));
  t.after(() => rm(root, { recursive: true, force: true }));
  await mkdir(join(root, 'scripts'));
  await copyFile(join(import.meta.dirname, '..', SCRIPT), join(root, SCRIPT));
  await writeFile(join(root, 'npm.mjs'), NPM);
  for (const [path, seconds] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), '');
    await utimes(join(root, path), seconds, seconds);
  }
  return root;
}

async function install(root: string, { args = [] as string[], npmExitCode = 0 } = {}) {
  const env = { ...process.env, npm_execpath: join(root, 'npm.mjs'), NPM_EXIT_CODE: String(npmExitCode) };
  // From another folder: npm runs scripts in the project's folder, a person may not.
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, SCRIPT), ...args], {
    cwd: tmpdir(),
    env,
    encoding: 'utf8',
  });
  const calls = await readFile(join(root, 'calls.json'), 'utf8').catch(() => null);
  return {
    status,
    stdout,
    stderr,
    call: calls === null ? null : (JSON.parse(calls) as { args: string[]; cwd: string }),
  };
}

const SERVER = ['--omit=dev'];
const server = { [LOCK]: OLD, [INSTALLED]: YOUNG, [NODE]: OLD };
const all = { ...server, 'node_modules/typescript/package.json': YOUNG };

for (const [name, files, args] of [
  ['the server needs, if only that is installed', server, SERVER],
  ['the server needs, if everything is installed', all, SERVER],
  ['the tests need', all, []],
] as const)
  test(`without a newer lock file nothing is installed or printed of what ${name}`, async (t) => {
    const root = await project(t, files);
    assert.deepEqual(await install(root, { args: [...args] }), { status: 0, stdout: '', stderr: '', call: null });
  });

test('what only the tests need is added to what the server needs, without removing that', async (t) => {
  const { status, call } = await install(await project(t, server));
  assert.equal(status, 0);
  assert.deepEqual(call?.args.slice(0, 2), ['install', '--no-save']);
});

test('the packages of tests are not installed for the server', async (t) => {
  const { call } = await install(await project(t, { [LOCK]: OLD }), { args: SERVER });
  assert.deepEqual(call?.args.slice(0, 2), ['ci', '--omit=dev']);
});

const stale: readonly (readonly [name: string, files: Readonly<Record<string, number>>])[] = [
  ['nothing is installed', { [LOCK]: OLD }],
  ['the lock file is newer than the installed packages', { [LOCK]: YOUNG, [INSTALLED]: OLD, [NODE]: OLD }],
  ['an installation stopped half-way', { [LOCK]: OLD, [NODE]: YOUNG }],
  ['the Node that runs TypeScript is missing', { [LOCK]: OLD, [INSTALLED]: YOUNG }],
];

for (const [name, files] of stale) {
  test(`npm ci runs when ${name}`, async (t) => {
    const root = await project(t, files);
    const { status, stdout, stderr, call } = await install(root);
    assert.equal(status, 0);
    assert.equal(call?.args[0], 'ci');
    assert.equal(call.cwd, root);
    // Standard output belongs to the command that runs afterwards.
    assert.equal(stdout, '');
    assert.match(stderr, /Installing/);
  });
}

test('after a failed npm ci nothing is started', async (t) => {
  const root = await project(t, { [LOCK]: OLD });
  const { status, stderr, call } = await install(root, { npmExitCode: 7 });
  assert.equal(call?.args[0], 'ci');
  assert.equal(status, 1);
  assert.match(stderr, /npm ci failed/);
});
