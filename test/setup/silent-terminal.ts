/** A non-interactive terminal for commands in the test process; records the output. */
import { Readable } from 'node:stream';
import type { Terminal } from '../../src/cli/terminal.ts';

export function silentTerminal(given: Partial<Terminal> = {}): Terminal & { out: string[]; err: string[] } {
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
}
