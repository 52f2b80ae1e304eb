/** A non-interactive terminal for commands in the test process; records the output. */
import { Readable } from 'node:stream';
import type { Terminal } from '../../src/cli/terminal.ts';

export function silentTerminal(given: Partial<Terminal> = {}): Terminal & { out: string[]; err: string[] } {
  const [out, err]: [string[], string[]] = [[], []];
  return {
    cwd: '/',
    nodeVersion: '26.0.0',
    print: (text) => void out.push(text),
    warn: (text) => void err.push(text),
    input: () => Readable.from([]),
    processId: 1,
    isRunning: () => false,
    untilStopSignal: () => new Promise(() => {}),
    ...given,
    // A supervisor would start the program of this process again, which is that of the tests.
    env: { PROCESSES: '1', ...given.env },
    out,
    err,
  };
}
