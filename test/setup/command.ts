/** Runs the program with arguments: in the process of the test, or as a process of its own. */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { hasScreen, linesTo, type Terminal } from '#cli/terminal.ts';
import { runProgram } from '../../src/cli/program.ts';
import { COMPILED, PROGRAM } from './child-environment.ts';
import { PATIENCE_MS, until } from './until.ts';

const MAIN = join(import.meta.dirname, '../..', PROGRAM);
/** Above the ids of all processes (`PID_MAX_LIMIT` of Linux). */
const FIRST_ID = 2 ** 22 + 1;

/**
 * A process that has not ended by then is killed, also in a mutation run, whose shorter `PATIENCE_MS` ends waits for something: some
 * commands wait by themselves for more than 10 s, such as `shards drop-moved --now` until all processes have followed.
 */
const PROCESS_LIMIT_MS = 60_000;

/** `code`: null if a signal ended the process. */
export type Ended = { code: number | null; out: string; err: string };

export type Running = {
  /** Returns the output so far, of stdout and stderr. */
  said: () => string;
  kill: (signal: NodeJS.Signals) => void;
  ended: Promise<Ended>;
};

type Environment = Readonly<Record<string, string | undefined>>;
type Output = Omit<Ended, 'code'> & { said: string };

/** The ids of the commands that run, in this process or in others. */
const running = new Set<number>();
let nextId = FIRST_ID;

/** Returns a terminal without a person, which records the output. */
export function testTerminal(env: Environment = {}, given: Partial<Terminal> = {}): Terminal & { output: Output } {
  const output = { out: '', err: '', said: '' };
  const record = (name: 'out' | 'err') =>
    linesTo((text) => {
      output[name] += text;
      output.said += text;
    });
  const opensPages = hasScreen({ platform: process.platform, env });
  return {
    // A supervisor would start the program of this process again, which is that of the tests. No load balancer is there to notice.
    env: { PROCESSES: '1', SHUTDOWN_DELAY_SECONDS: '0', ...env },
    cwd: '/',
    nodeVersion: process.versions.node,
    print: record('out'),
    warn: record('err'),
    input: () => Readable.from([]),
    ...(opensPages && { openPage: () => {} }),
    processId: nextId++,
    isRunning: (processId) => running.has(processId),
    untilStopSignal: () => new Promise(() => {}),
    ...given,
    output,
  };
}

/** Runs the program in this process. `kill` is a stop signal for it. */
export function startCommand(args: readonly string[], env: Environment, given: Partial<Terminal> = {}): Running {
  const { promise: signal, resolve: kill } = Promise.withResolvers<string>();
  const isJson = args.includes('--json');
  const terminal = testTerminal(env, { isJson, untilStopSignal: () => signal, ...given });
  const { output, processId } = terminal;
  running.add(processId);
  const run = async (): Promise<Ended> => {
    const code = await runProgram(terminal, args);
    running.delete(processId);
    return { code, out: output.out, err: output.err };
  };
  return { said: () => output.said, kill, ended: run() };
}

/** Returns the first group of the output once it matches. */
export async function printed(command: Running, pattern: RegExp): Promise<string> {
  let isOver = false;
  void command.ended.then(() => (isOver = true));
  await until(
    async () => command.said(),
    (said) => isOver || pattern.test(said),
  );
  const [, found] = pattern.exec(command.said()) ?? [];
  if (found === undefined) throw new Error(`The command ended without ${pattern.source}: ${command.said()}`);
  return found;
}

/** Waits for the end of a command; stops one that does not end. */
export async function untilEnded({ kill, ended }: Running): Promise<Ended> {
  const timer = setTimeout(() => kill('SIGTERM'), PATIENCE_MS);
  try {
    return await ended;
  } finally {
    clearTimeout(timer);
  }
}

export function runCommand(args: readonly string[], env: Environment, given?: Partial<Terminal>): Promise<Ended> {
  return untilEnded(startCommand(args, env, given));
}

/**
 * Starts the program as a process with only this environment; kills it if it does not end. A command in the process of the test
 * takes 0.5 s less of processor time.
 */
export function startProcess(
  args: readonly string[],
  env: Environment,
  { cwd }: { cwd?: string } = {},
): Running & { child: ChildProcessByStdio<null, Readable, Readable> } {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { ...COMPILED, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: PROCESS_LIMIT_MS,
    cwd,
  });
  const output = { out: '', err: '', said: '' };
  for (const [name, stream] of [
    ['out', child.stdout],
    ['err', child.stderr],
  ] as const)
    stream.setEncoding('utf8').on('data', (text: string) => {
      output[name] += text;
      output.said += text;
    });
  const { pid } = child;
  if (pid !== undefined) running.add(pid);
  const run = async (): Promise<Ended> => {
    const [code] = (await once(child, 'close')) as [number | null];
    if (pid !== undefined) running.delete(pid);
    return { code, out: output.out, err: output.err };
  };
  return { child, said: () => output.said, kill: (signal) => void child.kill(signal), ended: run() };
}

export function runProcess(args: readonly string[], env: Environment): Promise<Ended> {
  return startProcess(args, env).ended;
}
