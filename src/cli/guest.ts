import { createLog } from '#core/log.ts';
import { readConfig } from '#config/config.ts';
import type { openNative } from '#server/publishing.ts';
import { openHouse, type House } from './installation.ts';
import type { Terminal } from './terminal.ts';

export type Guest = House & ReturnType<typeof openNative>;

/** Runs a command for a moment on the database, also beside a running Halcyon. */
export const asGuest = async (terminal: Terminal, run: (guest: Guest) => Promise<void>): Promise<void> => {
  const config = readConfig(terminal.env, terminal.cwd);
  const { openNative } = await import('#server/publishing.ts');
  const house = await openHouse(config, createLog(config.logLevel), { isGuest: true });
  try {
    await run({ ...house, ...openNative(config) });
  } finally {
    await house.close();
  }
};
