/** `halcyon migrate`. */
import { readConfig } from '#config/config.ts';
import { createLog } from '#core/log.ts';
import { printResult, CliCommand } from './command.ts';
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
  const databases = migrated.length === 0 ? 'The database has' : `The ${migrated.length + 1} databases have`;
  const result = { applied, ...(migrated.length > 0 && { databases: migrated }) };
  printResult(terminal, result, [`${databases} the schema of this version.`]);
}

export function createMigrateCommand(terminal: Terminal): CliCommand {
  return new CliCommand('migrate')
    .description('migrate the database to the schema of this version')
    .examples('halcyon migrate')
    .action(() => migrateOnly(terminal));
}
