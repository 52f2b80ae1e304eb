#!/usr/bin/env node
/** argv and environment → one command. The only reader of `process`. */
import cluster from 'node:cluster';
import { printError, runProgram } from '#cli/program.ts';
import { askPerson, hasScreen, openPage, linesTo, type Terminal } from '#cli/terminal.ts';
import { exitCodeOf } from '#cli/explain.ts';
import type { ToProcess } from '#server/supervisor.ts';

/** Handles an uncaught error: a command exits at once; `serve` replaces this to stop gracefully first. */
let onUncaught = (error: unknown): void => {
  printError(terminal, error);
  process.exit(exitCodeOf(error));
};
// Node raises unhandled rejections as uncaught exceptions too.
process.on('uncaughtException', (error) => onUncaught(error));

function endInTime(limitMs: number): void {
  // Each part has a shorter time limit of its own; the watchdog ends the embedded PostgreSQL.
  setTimeout(() => {
    terminal.warn('halcyon: something did not stop in time; ending all the same');
    process.exit(1);
  }, limitMs).unref();
}

const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

const untilStopSignal = (limitMs = 9_500): Promise<string> =>
  new Promise((resolve) => {
    const stop = (signal: string) => {
      resolve(signal);
      endInTime(limitMs);
    };
    // The listener stays: a second Ctrl-C must not interrupt the shutdown that the first one began.
    for (const signal of STOP_SIGNALS) process.on(signal, stop);
  });

/**
 * A process of a supervisor stops when the supervisor says so or has ended. It ignores signals: ctrl-C reaches the whole process
 * group, and systemd sends SIGTERM to every process of a unit.
 */
function untilSupervisorStops(limitMs = 9_500): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  for (const signal of STOP_SIGNALS) process.on(signal, () => {});
  const stop = (reason: string) => {
    resolve(reason);
    endInTime(limitMs);
  };
  const { worker } = cluster;
  worker?.on('message', ({ kind }: ToProcess) => {
    if (kind === 'stop') stop('supervisor');
  });
  worker?.on('disconnect', () => {
    // Without this, node:cluster ends the process at once.
    worker.exitedAfterDisconnect = true;
    stop('supervisor has ended');
  });
  return promise;
}

function untilUncaught(limitMs: number): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  // The rejection may come before it is awaited.
  promise.catch(() => {});
  onUncaught = (error) => {
    reject(error);
    endInTime(limitMs);
    onUncaught = (late) => printError(terminal, late);
  };
  return promise;
}

/** `\r` and erase-line (ECMA-48 EL) instead of a line end, so that the next line replaces this one. */
function showProgress(line: string): void {
  process.stderr.write(`\r\x1b[K${line.slice(0, (process.stderr.columns || 80) - 1)}`);
}

/** EPERM: the process exists and belongs to another user. */
function isRunning(processId: number): boolean {
  try {
    return process.kill(processId, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

const terminal: Terminal = {
  env: process.env,
  cwd: process.cwd(),
  nodeVersion: process.versions.node,
  print: linesTo((text) => process.stdout.write(text)),
  warn: linesTo((text) => process.stderr.write(text)),
  input: () => process.stdin,
  // Reads it here, because an error may come before the options are read.
  isJson: process.argv.includes('--json'),
  ...(process.stdin.isTTY && process.stderr.isTTY ? { ask: (question) => askPerson(process, question) } : {}),
  ...(process.stderr.isTTY ? { showProgress } : {}),
  ...(hasScreen(process) ? { openPage: (address) => openPage(process.platform, address) } : {}),
  processId: process.pid,
  isRunning,
  untilStopSignal: cluster.isWorker ? untilSupervisorStops : untilStopSignal,
  untilUncaught,
};

/** The reader closed the pipe, as `head` does: exits as after a signal, without an error message. */
function onClosed(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error;
  process.kill(process.pid, 'SIGTERM');
}
for (const stream of [process.stdout, process.stderr]) stream.on('error', onClosed);

process.exitCode = await runProgram(terminal, process.argv.slice(2));
// At most an idle socket is open now; exiting must not wait for it.
process.exit();
