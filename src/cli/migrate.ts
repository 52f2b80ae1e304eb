/** `halcyon migrate`: opening the installation does it; the command is for a deployment that wants it as a step of its own. */
import { createLog } from '#core/log.ts';
import { readConfig } from '#config/config.ts';
import { answer } from './command.ts';
import { openInstallation } from './installation.ts';
import type { Terminal } from './terminal.ts';

export const migrateOnly = async (terminal: Terminal): Promise<void> => {
  const config = readConfig(terminal.env, terminal.cwd);
  const onMigration = (name: string): void => terminal.warn(`Applying ${name}`);
  const installation = await openInstallation(config, createLog(config.logLevel), { isGuest: true, onMigration });
  await installation.close();
  if (terminal.isJson === true) answer(terminal, { applied: installation.applied });
  else terminal.print('The database has the schema of this version.');
};
