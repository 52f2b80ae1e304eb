/** The interface between a command and its process: environment, input, output and signals. */
import type { Readable } from 'node:stream';
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline/promises';

/** What a command uses of its process. */
export type Terminal = {
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  /** The version of Node, such as `26.10.0`. */
  nodeVersion: string;
  print: (text: string) => void;
  warn: (text: string) => void;
  /** Asks the user a question and returns the reply; absent without a terminal. */
  ask?: (question: string) => Promise<string>;
  /** Results and errors are printed as JSON, one line each (`--json`). */
  isJson?: boolean;
  /** Returns stdin. */
  input: () => Readable;
  /** Replaces the progress line; absent without a terminal. */
  showProgress?: (line: string) => void;
  /** Opens a page in the browser; absent without a display. */
  openPage?: (address: string) => void;
  processId: number;
  isRunning: (processId: number) => boolean;
  /** Resolves with the name of the next stop signal, which no longer ends the process by itself. */
  untilStopSignal: (limitMs?: number) => Promise<string>;
  /** Rejects with the next uncaught error, which no longer ends the process by itself. */
  untilUncaught?: (limitMs: number) => Promise<never>;
};

/** Control characters except line ends and tabs, and characters that change the text direction. */
const UNSAFE = /[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069]/gu;

/**
 * Escapes control characters. Printed names, headers and responses may come from other people, and a terminal would execute
 * escape sequences in them (CSI, OSC). The JSON escape keeps JSON output valid and unchanged.
 */
function legible(text: string): string {
  return text.replaceAll(UNSAFE, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Returns a function that writes lines to an output stream. */
export const linesTo =
  (write: (text: string) => void) =>
  (text: string): void =>
    write(`${legible(text)}\n`);

export async function askPerson(
  { stdin: input, stderr: output }: Pick<NodeJS.Process, 'stdin' | 'stderr'>,
  question: string,
): Promise<string> {
  using lines = createInterface({ input, output });
  return await lines.question(question);
}

/** Commands by platform. An executable receives its arguments unchanged, a shell does not. */
const OPENERS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

export function openPage(platform: string, address: string): void {
  const [command, ...options] = OPENERS[platform] ?? ['xdg-open'];
  const opener = spawn(command, [...options, address], { stdio: 'ignore', detached: true });
  // Ignored: the address is printed as well.
  opener.on('error', () => {});
  opener.unref();
}

/** Returns whether there is a display: X11 or Wayland on Linux, always on other platforms. */
export function hasScreen({ platform, env }: Pick<NodeJS.Process, 'platform' | 'env'>): boolean {
  return platform in OPENERS || Boolean(env['DISPLAY']) || Boolean(env['WAYLAND_DISPLAY']);
}
