/** The outside of a command: where it stands, what it says, when it is told to stop. */
export type Terminal = {
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  print: (text: string) => void;
  warn: (text: string) => void;
  /** Resolves with the signal's name when somebody wants the process to end. */
  stopSignal: Promise<string>;
};
