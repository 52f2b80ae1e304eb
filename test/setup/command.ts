/** Runs the program with arguments. */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { COMPILED } from './child-environment.ts';

const MAIN = join(import.meta.dirname, '../../src/main.ts');
const PATIENCE_MS = 30_000;

export type Ended = { code: number | null; out: string; err: string };

/** Starts the program with only this environment; kills it if it does not end. */
export function startCommand(
  args: readonly string[],
  env: Record<string, string>,
  patienceMs = PATIENCE_MS,
): ChildProcessByStdio<null, Readable, Readable> {
  return spawn(process.execPath, [MAIN, ...args], {
    env: { ...COMPILED, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: patienceMs,
  });
}

/** Runs the program until it ends; a killed run has no exit code. */
export async function runCommand(args: readonly string[], env: Record<string, string>): Promise<Ended> {
  const child = startCommand(args, env);
  let [out, err] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, out, err };
}
