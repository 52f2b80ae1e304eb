#!/usr/bin/env node
/** argv and environment → one command. The only reader of `process`. */
import { createInterface } from 'node:readline/promises';
import { createProgram } from '#cli/program.ts';
import type { Terminal } from '#cli/terminal.ts';
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

const terminal: Terminal = {
  env: process.env,
  cwd: process.cwd(),
  print: (text) => void process.stdout.write(`${text}\n`),
  warn: (text) => void process.stderr.write(`${text}\n`),
  input: () => process.stdin,
  ...(process.stdin.isTTY && process.stderr.isTTY ? { ask } : {}),
  ...(process.stderr.isTTY ? { showProgress } : {}),
  untilToldToStop,
};

try {
  await createProgram(terminal).parseAsync(process.argv);
  process.exitCode = 0;
} catch (error) {
  terminal.warn(explain(error));
  process.exitCode = exitCodeOf(error);
}
// What is left open now is an idle socket at most; nobody should wait for it.
process.exit();
