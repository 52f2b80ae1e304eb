/** Runs the program: a command in the process of the test, or a process of its own. */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { exitCodeOf, explain } from '../../src/cli/explain.ts';
import { hasScreen } from '../../src/cli/person.ts';
import { createProgram } from '../../src/cli/program.ts';
import { legible, type Terminal } from '../../src/cli/terminal.ts';
import { COMPILED } from './child-environment.ts';
import { silentTerminal } from './silent-terminal.ts';

const MAIN = join(import.meta.dirname, '../../src/main.ts');
const PATIENCE_MS = 30_000;

export type Ended = { code: number | null; out: string; err: string };

/** Beyond the ids of processes (PID_MAX_LIMIT of Linux is 4,194,304): each command in this process has an id of its own. */
let lastId = 10_000_000;
const running = new Set<number>();

export type Running = {
  /** Returns all output so far. */
  said: () => string;
  /** Sends a stop signal. */
  stop: (signal: string) => void;
  hasEnded: () => boolean;
  ended: Promise<Ended>;
};

/**
 * Starts a command with only this environment in the process of the test: a process takes 0.5 s of processor time to start.
 * `given`: what differs from a terminal without a person.
 */
export function startCommand(
  args: readonly string[],
  env: Record<string, string>,
  given: Partial<Terminal> = {},
): Running {
  const written: { stream: 'out' | 'err'; text: string }[] = [];
  const write = (stream: 'out' | 'err') => (text: string) => void written.push({ stream, text: `${legible(text)}\n` });
  const read = (stream?: 'out' | 'err'): string =>
    written.map((each) => (stream === undefined || each.stream === stream ? each.text : '')).join('');
  const processId = (lastId += 1);
  running.add(processId);
  const { promise: stopped, resolve: stop } = Promise.withResolvers<string>();
  const terminal = silentTerminal({
    print: write('out'),
    warn: write('err'),
    isJson: args.includes('--json'),
    ...(hasScreen({ platform: process.platform, env }) ? { openPage: () => {} } : {}),
    processId,
    isRunning: (id) => running.has(id),
    untilStopSignal: () => stopped,
    ...given,
    env,
  });
  const run = async (): Promise<Ended> => {
    let code = 0;
    try {
      await createProgram(terminal).parseAsync(['node', 'halcyon', ...args]);
    } catch (error) {
      code = exitCodeOf(error);
      const message = explain(error, terminal.isJson);
      if (message !== undefined) terminal.warn(message);
    }
    running.delete(processId);
    return { code, out: read('out'), err: read('err') };
  };
  return { said: read, stop, hasEnded: () => !running.has(processId), ended: run() };
}

/** Runs a command in the process of the test until it ends. */
export const runCommand = (...given: Parameters<typeof startCommand>): Promise<Ended> => startCommand(...given).ended;

/** Starts the program with only this environment; kills it if it does not end. */
export function spawnCommand(
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
export async function runProcess(args: readonly string[], env: Record<string, string>): Promise<Ended> {
  const child = spawnCommand(args, env);
  let [out, err] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, out, err };
}
