import { createLog } from '#kernel/log.ts';
import { readConfig } from '#config.ts';
import type { openNative } from '#publishing.ts';
import { openHouse, type House } from './house.ts';
import type { Terminal } from './terminal.ts';

export type Guest = House & ReturnType<typeof openNative>;

/** Runs a command for a moment on the database, also beside a running Halcyon. */
export const asGuest = async (terminal: Terminal, run: (guest: Guest) => Promise<void>): Promise<void> => {
  const config = readConfig(terminal.env, terminal.cwd);
  const { openNative } = await import('#publishing.ts');
  const house = await openHouse(config, createLog(config.logLevel), { isGuest: true });
  try {
    await run({ ...house, ...openNative(config) });
  } finally {
    await house.close();
  }
};
