/** `halcyon migrate`: opening the house does it; the command is for a deployment that wants it as a step of its own. */
import { createLog } from '#core/log.ts';
import { readConfig } from '#config/config.ts';
import { answer } from './command.ts';
import { openHouse } from './installation.ts';
import type { Terminal } from './terminal.ts';

export const migrateOnly = async (terminal: Terminal): Promise<void> => {
  const config = readConfig(terminal.env, terminal.cwd);
  const onMigration = (name: string): void => terminal.warn(`Applying ${name}`);
  const house = await openHouse(config, createLog(config.logLevel), { isGuest: true, onMigration });
  await house.close();
  if (terminal.isJson === true) answer(terminal, { applied: house.applied });
  else terminal.print('The database has the schema of this version.');
};
