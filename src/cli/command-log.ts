/** The log of a command: its entries are for the person at the terminal, so they are lines of text without stacks. */
import { createLog, type Log } from '#core/log.ts';
import type { Terminal } from './terminal.ts';

type Entry = { msg: string; database?: string | number; reason?: string; err?: { message: string } };

/** Writes entries of the level, or a more serious one, as warnings. */
export function createCommandLog(terminal: Pick<Terminal, 'warn'>, level: string): Log {
  const write = (line: string): void => {
    const { msg, database, reason, err } = JSON.parse(line) as Entry;
    const details = [database, err?.message ?? reason].filter((detail) => detail !== undefined);
    terminal.warn(`halcyon: ${[msg, ...details].join(': ')}`);
  };
  return createLog(level, { write });
}
