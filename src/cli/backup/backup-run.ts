/** Runs a program that writes a file, with progress, and ends it on a stop signal. */
import { spawn } from 'node:child_process';
import { stat } from 'node:fs/promises';
import type { Env } from '#config/env.ts';
import { EXIT, UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';

const PROGRESS_MS = 500;
/** Without a terminal, for the log. */
const LOG_PROGRESS_MS = 10_000;
const STDERR_CHARACTERS = 2_000;
const MIB = 1024 ** 2;

function createProgress({ showProgress, warn }: Terminal, file: string): () => void {
  const show = async (write: (line: string) => void): Promise<void> => {
    const found = await stat(file).catch(() => undefined);
    if (found !== undefined) write(`${(found.size / MIB).toFixed(1)} MiB written`);
  };
  const timer = setInterval(
    () => void show(showProgress ?? warn),
    showProgress === undefined ? LOG_PROGRESS_MS : PROGRESS_MS,
  );
  return () => {
    clearInterval(timer);
    showProgress?.('');
  };
}

/** Runs the program; throws a `UserError` with the end of its stderr if it fails, and on a stop signal, which ends it. */
export async function runProgram(
  terminal: Terminal,
  program: { path: string; args: readonly string[]; env: Env; file: string },
): Promise<void> {
  const { path, args, env, file } = program;
  // A separate process group: ctrl-C reaches only this process, so the program does not print an error of its own.
  const child = spawn(path, args, { env: { ...env }, stdio: ['ignore', 'ignore', 'pipe'], detached: true });
  let signal: string | undefined;
  void terminal.untilStopSignal().then((name) => {
    signal = name;
    child.kill('SIGTERM');
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-STDERR_CHARACTERS)));
  const stopProgress = createProgress(terminal, file);
  const { promise: ended, resolve } = Promise.withResolvers<string | undefined>();
  child.once('error', (error) => resolve(error.message));
  child.once('close', (code, by) => resolve(code === 0 ? undefined : stderr.trim() || `it ended with ${by ?? code}`));
  const failure = await ended;
  stopProgress();
  if (signal !== undefined) throw new UserError(`${signal}: nothing was written; run this again`, EXIT.interrupted);
  if (failure === undefined) return;
  const line = failure.replaceAll(/\s*\n\s*/g, '; ');
  throw new UserError(`${path} failed, and nothing was written: ${line}. Fix this, then run this again`);
}
