#!/usr/bin/env node
/** argv and environment → one command. The only reader of `process`. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline/promises';
import { createProgram } from '#cli/program.ts';
import { legible, type Terminal } from '#cli/terminal.ts';
import { exitCodeOf, explain } from '#cli/explain.ts';
import { stopping } from './delivery-config.ts';

const untilToldToStop = (): Promise<string> =>
  new Promise((resolve) => {
    const stop = (signal: string) => {
      resolve(signal);
      // Every part has a time-out of its own that is shorter; the embedded PostgreSQL is ended by its watchdog.
      setTimeout(() => {
        terminal.warn('halcyon: something did not stop in time; ending all the same');
        process.exit(1);
      }, stopping.allMs).unref();
    };
    // Listened to for ever: a second ctrl-C must not kill what the first one is ending.
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);
  });

const ask = async (question: string): Promise<string> => {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return await lines.question(question);
  } finally {
    lines.close();
  }
};

/** `\r` and the erasure of the line (ECMA-48 EL) instead of a line end: the next one stands in its place. */
const showProgress = (line: string): void => {
  process.stderr.write(`\r\x1b[K${line.slice(0, (process.stderr.columns || 80) - 1)}`);
};

/** What opens an address in the browser that a person has chosen; only a file of its own is given arguments as they are. */
const openers: Readonly<Record<string, readonly [string, ...string[]]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

const openPage = (address: string): void => {
  const [command, ...options] = openers[process.platform] ?? ['xdg-open'];
  const opener = spawn(command, [...options, address], { stdio: 'ignore', detached: true });
  // The address is printed as well: whoever has no such program opens it by hand.
  opener.on('error', () => {});
  opener.unref();
};

/** Of X11 and of Wayland; elsewhere there always is one. */
const hasScreen =
  process.platform in openers || Boolean(process.env['DISPLAY']) || Boolean(process.env['WAYLAND_DISPLAY']);

/** EPERM: it runs, as somebody else. */
const isRunning = (processId: number): boolean => {
  try {
    return process.kill(processId, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
};

const terminal: Terminal = {
  env: process.env,
  cwd: process.cwd(),
  nodeVersion: process.versions.node,
  print: (text) => void process.stdout.write(`${legible(text)}\n`),
  warn: (text) => void process.stderr.write(`${legible(text)}\n`),
  input: () => process.stdin,
  // Read here, because an error may come before the options are read.
  isJson: process.argv.includes('--json'),
  ...(process.stdin.isTTY && process.stderr.isTTY ? { ask } : {}),
  ...(process.stderr.isTTY ? { showProgress } : {}),
  ...(hasScreen ? { openPage } : {}),
  processId: process.pid,
  isRunning,
  untilToldToStop,
};

/** Whoever read it has gone, as `head` does: it ends as by a signal, which closes what is open, and tells nobody of it. */
const onClosed = (error: NodeJS.ErrnoException): void => {
  if (error.code !== 'EPIPE') throw error;
  process.kill(process.pid, 'SIGTERM');
};
for (const stream of [process.stdout, process.stderr]) stream.on('error', onClosed);

try {
  await createProgram(terminal).parseAsync(process.argv);
  process.exitCode = 0;
} catch (error) {
  const told = explain(error, terminal.isJson);
  if (told !== undefined) terminal.warn(told);
  process.exitCode = exitCodeOf(error);
}
// What is left open now is an idle socket at most; nobody should wait for it.
process.exit();
