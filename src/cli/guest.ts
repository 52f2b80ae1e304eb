import { createLog } from '#core/log.ts';
import { readConfig } from '#config/config.ts';
import type { openInternalEvents } from '#server/publishing.ts';
import { openInstallation, type Installation } from './installation.ts';
import type { Terminal } from './terminal.ts';

export type Guest = Installation & ReturnType<typeof openInternalEvents>;

/** Runs a command for a moment on the database, also beside a running Halcyon. */
export const asGuest = async (terminal: Terminal, run: (guest: Guest) => Promise<void>): Promise<void> => {
  const config = readConfig(terminal.env, terminal.cwd);
  const { openInternalEvents } = await import('#server/publishing.ts');
  const installation = await openInstallation(config, createLog(config.logLevel), { isGuest: true });
  try {
    await run({ ...installation, ...openInternalEvents(config) });
  } finally {
    await installation.close();
  }
};
