import type { Readable } from 'node:stream';

/** The outside of a command: where it stands, what it says, when it is told to stop. */
export type Terminal = {
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  print: (text: string) => void;
  warn: (text: string) => void;
  /** Puts a question to whoever sits there, and answers what they typed; absent where nobody does. */
  ask?: (question: string) => Promise<string>;
  /** What is piped in. */
  input: () => Readable;
  /** Shows how far something is, in place of what it showed before; absent where nobody watches. */
  showProgress?: (line: string) => void;
  /** From this call on a signal does not end the process: it resolves with the signal's name. */
  untilToldToStop: () => Promise<string>;
};
