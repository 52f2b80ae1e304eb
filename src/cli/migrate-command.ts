/** `halcyon migrate`. */
import { Command } from 'commander';
import { readConfig } from '#config/config.ts';
import { createLog } from '#core/log.ts';
import { examples, printResult } from './command.ts';
import { openInstallation } from './installation.ts';
import type { Terminal } from './terminal.ts';

/** Applies the migrations as a separate deployment step; every start applies them as well. */
async function migrateOnly(terminal: Terminal): Promise<void> {
  const config = readConfig(terminal.env, terminal.cwd);
  const onMigration = (name: string, database?: string): void =>
    terminal.warn(database === undefined ? `Applying ${name}` : `Applying ${name} to ${database}`);
  await using installation = await openInstallation(config, createLog(config.logLevel), {
    usesRunningServer: true,
    requiresAll: true,
    onMigration,
  });
  const { applied, migrated } = installation;
  if (terminal.isJson === true) printResult(terminal, { applied, ...(migrated.length > 0 && { databases: migrated }) });
  else if (migrated.length === 0) terminal.print('The database has the schema of this version.');
  else terminal.print(`The ${migrated.length + 1} databases have the schema of this version.`);
}

export function createMigrateCommand(terminal: Terminal): Command {
  return new Command('migrate')
    .description('migrate the database to the schema of this version')
    .addHelpText('after', examples('halcyon migrate'))
    .action(() => migrateOnly(terminal));
}
