/** Programs of other languages that tests run. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { TestContext } from 'node:test';

/** `out`: what the program printed, and then its complaints. */
type Ended = { code: number | null; out: string };
type Where = { cwd?: string; env?: Readonly<Record<string, string>> };

/** Runs a program until it ends. */
export async function run(
  command: string,
  args: readonly string[],
  { cwd = tmpdir(), env = {} }: Where = {},
): Promise<Ended> {
  const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const closed = once(child, 'close') as Promise<[number | null]>;
  const [out, complaints, [code]] = await Promise.all([text(child.stdout), text(child.stderr), closed]);
  return { code, out: out + complaints };
}

/** Returns what the program printed; throws if it did not succeed. */
export async function succeed(command: string, args: readonly string[], where?: Where): Promise<string> {
  const { code, out } = await run(command, args, where);
  assert.equal(code, 0, `${command} ${args.join(' ')}: ${out}`);
  return out;
}

/** Makes a Python environment in a folder, with packages from PyPI; returns the path of one of its programs. */
export async function makePythonEnvironment(
  folder: string,
  packages: readonly string[],
): Promise<(program: string) => string> {
  await succeed('python3', ['-m', 'venv', folder]);
  const programOf = (program: string) => join(folder, 'bin', program);
  if (packages.length > 0) await succeed(programOf('pip'), ['install', '--quiet', ...packages]);
  return programOf;
}

const COPY = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy';

/** Copies an artifact of Maven Central (`group:name:version`) into a folder, as `<name>-<version>.jar`. */
export async function copyArtifact(artifact: string, folder: string): Promise<void> {
  await succeed('mvn', [COPY, '--quiet', '--batch-mode', `-Dartifact=${artifact}`, `-DoutputDirectory=${folder}`]);
}

export const MAVEN: Program = { version: ['mvn', '--version'], debianPackages: 'maven default-jdk-headless' };

/** `version`: the command that prints the version; `atLeast`: the first version that suffices. */
export type Program = {
  version: readonly string[];
  atLeast?: readonly [major: number, minor: number];
  debianPackages: string;
};

async function isInstalled({ version, atLeast = [0, 0] }: Program): Promise<boolean> {
  const [command = '', ...args] = version;
  const { code, out } = await run(command, args).catch(() => ({ code: null, out: '' }));
  if (code !== 0) return false;
  const [, major = 0, minor = 0] = /(\d+)\.(\d+)/.exec(out)?.map(Number) ?? [];
  return major > atLeast[0] || (major === atLeast[0] && minor >= atLeast[1]);
}

/** Skips the test if a program is missing, which may be on a developer's machine, but not in CI. */
export async function isMissing(t: TestContext, program: Program): Promise<boolean> {
  if (await isInstalled(program)) return false;
  const { version, atLeast, debianPackages } = program;
  const wanted = atLeast === undefined ? '' : ` ${atLeast.join('.')} or newer`;
  const sentence = `${version[0]}${wanted} is missing: apt-get install --no-install-recommends ${debianPackages}`;
  assert.equal(process.env['CI'], undefined, sentence);
  t.skip(sentence.toUpperCase());
  return true;
}
