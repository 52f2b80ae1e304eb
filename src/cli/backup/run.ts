/** Another program that writes a file, watched and ended with us. */
import { spawn } from 'node:child_process';
import { stat } from 'node:fs/promises';
import type { Env } from '#config/env.ts';
import { EXIT, UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';

const SHOWN_EVERY_MS = 500;
/** Where nobody watches, for whoever reads the log afterwards. */
const SAID_EVERY_MS = 10_000;
const SAID_CHARACTERS = 2_000;
const MIB = 1024 ** 2;

const createProgress = ({ showProgress, warn }: Terminal, file: string): (() => void) => {
  const show = async (say: (line: string) => void): Promise<void> => {
    const found = await stat(file).catch(() => undefined);
    if (found !== undefined) say(`${(found.size / MIB).toFixed(1)} MiB written`);
  };
  const timer = setInterval(
    () => void show(showProgress ?? warn),
    showProgress === undefined ? SAID_EVERY_MS : SHOWN_EVERY_MS,
  );
  return () => {
    clearInterval(timer);
    showProgress?.('');
  };
};

/** Fulfils when it ends well; otherwise throws a `UserError` with its last words. A signal ends it, and then us. */
export const runProgram = async (
  terminal: Terminal,
  program: { path: string; args: readonly string[]; env: Env; file: string },
): Promise<void> => {
  const { path, args, env, file } = program;
  // A group of its own: ctrl-C reaches us alone, and who is ended in the middle says nothing of its own.
  const child = spawn(path, args, { env: { ...env }, stdio: ['ignore', 'ignore', 'pipe'], detached: true });
  let signal: string | undefined;
  void terminal.untilToldToStop().then((name) => {
    signal = name;
    child.kill('SIGTERM');
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-SAID_CHARACTERS)));
  const stopProgress = createProgress(terminal, file);
  const { promise: ended, resolve } = Promise.withResolvers<string | undefined>();
  child.once('error', (error) => resolve(error.message));
  child.once('close', (code, by) => resolve(code === 0 ? undefined : said.trim() || `it ended with ${by ?? code}`));
  const failure = await ended;
  stopProgress();
  if (signal !== undefined) throw new UserError(`${signal}: nothing was written; run this again`, EXIT.interrupted);
  if (failure === undefined) return;
  const line = failure.replaceAll(/\s*\n\s*/g, '; ');
  throw new UserError(`${path} failed, and nothing was written: ${line}. Mend that, then run this again`);
};
