/** A terminal at which nobody sits, for commands that run in the process of a test; it keeps what is said. */
import { Readable } from 'node:stream';
import type { Terminal } from '../../src/cli/terminal.ts';

export const silentTerminal = (given: Partial<Terminal> = {}): Terminal & { out: string[]; err: string[] } => {
  const [out, err]: [string[], string[]] = [[], []];
  return {
    env: {},
    cwd: '/',
    nodeVersion: '26.0.0',
    print: (text) => void out.push(text),
    warn: (text) => void err.push(text),
    input: () => Readable.from([]),
    processId: 1,
    isRunning: () => false,
    untilStopSignal: () => new Promise(() => {}),
    ...given,
    out,
    err,
  };
};
