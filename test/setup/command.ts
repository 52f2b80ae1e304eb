/** The program with arguments, run to its end. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

const MAIN = join(import.meta.dirname, '../../src/main.ts');
const PATIENCE_MS = 30_000;

export type Ended = { code: number | null; out: string; err: string };

/** Runs it with just this environment; a run that does not end by itself is killed and has no exit code. */
export const runCommand = async (args: readonly string[], env: Record<string, string>): Promise<Ended> => {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: PATIENCE_MS,
  });
  let [out, err] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, out, err };
};
