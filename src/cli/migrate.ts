/** `halcyon migrate`: applies the migrations as a separate deployment step; every start applies them as well. */
import { createLog } from '#core/log.ts';
import { readConfig } from '#config/config.ts';
import { printResult } from './command.ts';
import { openInstallation } from './installation.ts';
import type { Terminal } from './terminal.ts';

export async function migrateOnly(terminal: Terminal): Promise<void> {
  const config = readConfig(terminal.env, terminal.cwd);
  const onMigration = (name: string): void => terminal.warn(`Applying ${name}`);
  const installation = await openInstallation(config, createLog(config.logLevel), {
    usesRunningServer: true,
    onMigration,
  });
  await installation.close();
  if (terminal.isJson === true) printResult(terminal, { applied: installation.applied });
  else terminal.print('The database has the schema of this version.');
}
