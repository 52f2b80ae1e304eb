/** Captures the log of a server at the finest level, without redaction, and the output of the process meanwhile. */
import { after } from 'node:test';
import { pino } from 'pino';
import type { Log } from '#core/log.ts';

export type Capture = { log: Log; text: () => string; clear: () => void };

export function captureLogs(): Capture {
  const lines: string[] = [];
  // Redaction is the second protection: this checks the first one, that no secret is logged at all.
  const log: Log = pino({ level: 'trace', base: null }, { write: (line: string) => void lines.push(line) });
  for (const stream of [process.stdout, process.stderr]) {
    const write = stream.write.bind(stream);
    const spy = (...given: Parameters<typeof write>): boolean => {
      lines.push(typeof given[0] === 'string' ? given[0] : Buffer.from(given[0]).toString('latin1'));
      return write(...given);
    };
    stream.write = spy as typeof stream.write;
    after(() => void (stream.write = write));
  }
  return { log, text: () => lines.join(''), clear: () => void (lines.length = 0) };
}
