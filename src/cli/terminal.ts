import type { Readable } from 'node:stream';

/** The outside of a command: where it stands, what it says, when it is told to stop. */
export type Terminal = {
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  /** Of the Node that runs this, such as `26.10.0`. */
  nodeVersion: string;
  print: (text: string) => void;
  warn: (text: string) => void;
  /** Puts a question to whoever sits there, and answers what they typed; absent where nobody does. */
  ask?: (question: string) => Promise<string>;
  /** Somebody asked for results and errors as JSON, one line each (`--json`). */
  isJson?: boolean;
  /** What is piped in. */
  input: () => Readable;
  /** Shows how far something is, in place of what it showed before; absent where nobody watches. */
  showProgress?: (line: string) => void;
  /** Shows a page to whoever sits there; absent where there is no screen. */
  openPage?: (address: string) => void;
  /** Of this process, for others to find out whether it still runs. */
  processId: number;
  isRunning: (processId: number) => boolean;
  /** From this call on a signal does not end the process: it resolves with the signal's name. */
  untilToldToStop: (limitMs?: number) => Promise<string>;
  /** Rejects with the next uncaught error, which no longer ends the process by itself. */
  untilUncaught?: (limitMs: number) => Promise<never>;
};

/** Control characters, but for ends of lines and tabs, and those that turn the direction of what stands beside them. */
const COMMANDS = /[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069]/gu;

/**
 * What is printed may be written by anybody: names, headers, what a server answers. A terminal would obey what it finds there (CSI,
 * OSC), so that it is shown as its escape in JSON, by which JSON stays what it was.
 */
export const legible = (text: string): string =>
  text.replaceAll(COMMANDS, (command) => `\\u${command.charCodeAt(0).toString(16).padStart(4, '0')}`);
