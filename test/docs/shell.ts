/** A bash like that of a reader of a page: runs one block after another and keeps what each prints. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from '../setup/until.ts';

const BLOCK_MS = 60_000;

export type Said = {
  /** The output of the block, both streams. */
  output: string;
  /** Commands that ended with a code other than 0, as typed. */
  failed: string[];
};

/** A program that keeps running in its own terminal. */
export type Running = { output: () => Promise<string>; end: () => Promise<void> };

export type Shell = {
  /** `typed` returns the input that the block asks for; `onOutput` receives the output so far. */
  run: (commands: string, typed: string, onOutput: (output: string) => void) => Promise<Said>;
  /** Starts the block beside this shell, with its variables, and returns after it printed `sign`. */
  keepRunning: (commands: string, sign: string) => Promise<Running>;
  close: () => Promise<void>;
};

const read = (path: string): Promise<string> => readFile(path, 'utf8').catch(() => '');
/** Without the block itself, which fails with its last command. */
const failedIn = (notes: string): string[] => notes.split('\n').filter((line) => line !== '' && !line.startsWith('. '));

async function isGone(pid: number): Promise<boolean> {
  try {
    process.kill(-pid, 0);
    return false;
  } catch {
    return true;
  }
}

/** `folder` has the files of the shell: blocks, their output, and failed commands. */
export async function startShell(cwd: string, folder: string, env: Record<string, string>): Promise<Shell> {
  await mkdir(folder, { recursive: true });
  const bash = spawn('bash', { cwd, env, stdio: ['pipe', 'ignore', 'inherit'], detached: true });
  const ended = once(bash, 'exit');
  const giveUp = (): void => {
    if (bash.pid !== undefined) process.kill(-bash.pid, 'SIGKILL');
  };
  const failures = join(folder, 'failed');
  bash.stdin.write(`set -E\nexec 9>>'${failures}'\ntrap 'echo "$BASH_COMMAND" >&9' ERR\n`);
  let count = 0;
  const note = async (text: string, typed: string): Promise<string> => {
    count += 1;
    const path = join(folder, String(count));
    await Promise.all([writeFile(path, text), writeFile(`${path}.in`, typed)]);
    return path;
  };
  return {
    run: async (commands, typed, onOutput) => {
      const block = await note(commands, typed);
      await writeFile(failures, '');
      bash.stdin.write(`. '${block}' <'${block}.in' >'${block}.out' 2>&1; echo over >'${block}.end'\n`);
      const isOver = async (): Promise<boolean> => {
        // In this order: output between the two reads is part of the result.
        const over = (await read(`${block}.end`)) !== '';
        onOutput(await read(`${block}.out`));
        return over;
      };
      await until(isOver, (over) => over, BLOCK_MS).catch(async () => {
        giveUp();
        throw new Error(`It did not end in ${BLOCK_MS} ms:\n${commands}\n${await read(`${block}.out`)}`);
      });
      return { output: await read(`${block}.out`), failed: failedIn(await read(failures)) };
    },
    keepRunning: async (commands, sign) => {
      const block = await note(commands, '');
      // With job control, so that it is its own process group and can be ended as ctrl-C ends it.
      const job = `( . '${block}' ) </dev/null >'${block}.out' 2>&1 9>&- &`;
      bash.stdin.write(`set -m; ${job} echo $! >'${block}.pid'; set +m\n`);
      const output = () => read(`${block}.out`);
      const pid = Number(
        await until(
          () => read(`${block}.pid`),
          (text) => text.endsWith('\n'),
        ),
      );
      const end = async (): Promise<void> => {
        if (!(await isGone(pid))) process.kill(-pid, 'SIGINT');
        await until(
          () => isGone(pid),
          (gone) => gone,
          BLOCK_MS,
        );
      };
      const isBegun = async (): Promise<boolean> => {
        if ((await output()).includes(sign)) return true;
        if (await isGone(pid)) throw new Error(`It ended before it said "${sign}"`);
        return false;
      };
      // An installation takes as long as other files leave it the cores: its end, or the limit of the file, decides.
      await until(isBegun, (begun) => begun, Infinity).catch(async (cause: unknown) => {
        await end();
        throw new Error(`${String(cause)}:\n${commands}\n${await output()}`, { cause });
      });
      return { output, end };
    },
    close: async () => {
      bash.stdin.end();
      await ended;
    },
  };
}
