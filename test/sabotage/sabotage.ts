/** Applies a line of sabotage to a copy of the tree and looks whether the test it names finds it. */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { faultOfProof, faultOfWitness, type Observation } from './judge.ts';
import { readPatch, SabotageError, type Sabotage } from './patch.ts';

const run = promisify(execFile);
const OUTPUT_BYTES = 16 * 1024 * 1024;
/** Longer than a test may take in there: a run that does not end is ended. */
const OBSERVE_MS = 90_000;
const NOT_FOUND = 'ENOENT';

/** Every file that git knows or would offer to add, as it stands now; what is ignored is left out. */
const copyTree = async (root: string, copy: string): Promise<void> => {
  const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const { stdout } = await run('git', list, { cwd: root, maxBuffer: OUTPUT_BYTES });
  for (const path of new Set(stdout.split('\0').filter((name) => name !== ''))) {
    await mkdir(dirname(join(copy, path)), { recursive: true });
    await copyFile(join(root, path), join(copy, path)).catch((error: NodeJS.ErrnoException) => {
      // Deleted in the working tree and not yet in a commit.
      if (error.code !== NOT_FOUND) throw error;
    });
  }
  await symlink(join(root, 'node_modules'), join(copy, 'node_modules'));
};

/** Without what node:test told this process of itself, the child would take itself for one of our test files. */
const childEnvironment = (copy: string): NodeJS.ProcessEnv => {
  const { NODE_TEST_CONTEXT: _context, NODE_OPTIONS: _options, ...env } = process.env;
  // Inside of a repository git would look for the patch's paths in that one.
  return { ...env, GIT_CEILING_DIRECTORIES: dirname(copy), NODE_COMPILE_CACHE: join(copy, '.compiled') };
};

const observe = async (copy: string, { testFile, testName }: Sabotage): Promise<Observation[]> => {
  const { stdout } = await run(process.execPath, ['test/sabotage/observe.ts', testFile, testName], {
    cwd: copy,
    env: childEnvironment(copy),
    maxBuffer: OUTPUT_BYTES,
    timeout: OBSERVE_MS,
  });
  const lines = stdout.split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line) as Observation);
};

const apply = async (copy: string, text: string): Promise<void> => {
  await writeFile(join(copy, '.sabotage'), text);
  await run('git', ['apply', '.sabotage'], { cwd: copy, env: childEnvironment(copy) }).catch((error: unknown) => {
    throw new SabotageError('it no longer applies: make it again with git diff', { cause: error });
  });
};

const takeBack = (copy: string) =>
  run('git', ['apply', '--reverse', '.sabotage'], { cwd: copy, env: childEnvironment(copy) });

const demand = (fault: string | undefined): void => {
  if (fault !== undefined) throw new SabotageError(fault);
};

/** A copy of the tree that many lines are tried in, one after the other: what was compiled of it once is compiled. */
export type Copy = { path: string; remove: () => Promise<void> };

/** In the folder for temporary files; it shares the running test database. */
export const copyOf = async (root: string): Promise<Copy> => {
  const path = await mkdtemp(join(tmpdir(), 'halcyon-sabotage-'));
  await copyTree(root, path);
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
};

/** What became of each test as things stand, alone: several lines may name one, and all copies are alike. */
export type Witnesses = Map<string, Promise<readonly Observation[]>>;

const lookOnce = (witnesses: Witnesses, path: string, sabotage: Sabotage): Promise<readonly Observation[]> => {
  const key = `${sabotage.testFile} > ${sabotage.testName}`;
  const look = witnesses.get(key) ?? observe(path, sabotage);
  witnesses.set(key, look);
  return look;
};

/**
 * Throws a `SabotageError` unless the named test is green as things stand and red, for a reason of its own, after the
 * patch, which is taken back afterwards.
 */
export const proveSabotage = async ({ path }: Copy, text: string, witnesses: Witnesses): Promise<Sabotage> => {
  const sabotage = readPatch(text);
  demand(faultOfWitness(await lookOnce(witnesses, path, sabotage), sabotage.testName));
  await apply(path, text);
  try {
    demand(faultOfProof(await observe(path, sabotage), sabotage.testName));
  } finally {
    await takeBack(path);
  }
  return sabotage;
};
