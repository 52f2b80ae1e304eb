/** The program as a process, controlled by signals: any command, of this tree or of another one. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { COMPILED, PROGRAM } from '../child-environment.ts';

const ROOT = join(import.meta.dirname, '../../..');

export type Program = {
  pid: number;
  isOver: () => boolean;
  /** Sends the signal without waiting: SIGSTOP, SIGCONT. */
  signal: (signal: NodeJS.Signals) => void;
  /** Sends the signal and waits for the end; returns the exit code, or the signal that ended the process. */
  end: (signal: NodeJS.Signals) => Promise<number | NodeJS.Signals | null>;
  /** Returns the output so far, of both streams. */
  said: () => string;
};

export type Ready = 'is ready.' | 'is delivering.' | 'Relaying';

/** Starts the program of the tree at `root` (`src/main.ts`, if no other is given), and waits until it logs that it is ready. */
export async function startProgram(given: {
  root: string;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
  ready: Ready;
  program?: string | undefined;
}): Promise<Program> {
  const { root, args, env, ready, program: file = root === ROOT ? PROGRAM : 'src/main.ts' } = given;
  const child = spawn(process.execPath, [join(root, file), ...args], {
    env: { PATH: process.env['PATH'] ?? '', ...COMPILED, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  const exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  const { promise: isReady, resolve } = Promise.withResolvers<true>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      if (said.includes(ready)) resolve(true);
    });
  }
  const isOver = () => child.exitCode !== null || child.signalCode !== null;
  const program: Program = {
    pid: child.pid ?? 0,
    isOver,
    signal: (signal) => void child.kill(signal),
    end: async (signal) => {
      if (!isOver()) child.kill(signal);
      const [code, by] = await exited;
      return by ?? code;
    },
    said: () => said,
  };
  if ((await Promise.race([isReady, exited])) === true) return program;
  throw new Error(`The program ended before it was ready: ${said}`);
}
