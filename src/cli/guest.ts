import { createLog } from '#kernel/log.ts';
import { readConfig } from '#config.ts';
import { openHouse, type House } from './house.ts';
import type { Terminal } from './terminal.ts';

/** Runs a command for a moment on the database, also beside a running Halcyon. */
export const asGuest = async (terminal: Terminal, run: (house: House) => Promise<void>): Promise<void> => {
  const config = readConfig(terminal.env, terminal.cwd);
  const house = await openHouse(config, createLog(config.logLevel), { isGuest: true });
  try {
    await run(house);
  } finally {
    await house.close();
  }
};
