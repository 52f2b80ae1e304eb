/** Opens the installation for the duration of a command. */
import { declareFile } from '#catalog/own/file.ts';
import { createLog } from '#core/log.ts';
import { readConfig } from '#config/config.ts';
import type { openInternalEvents } from '#server/publishing.ts';
import { openInstallation, type Installation } from './installation.ts';
import type { Terminal } from './terminal.ts';

export type CommandContext = Installation & ReturnType<typeof openInternalEvents>;

/** Runs a short-lived command on the database, also while Halcyon is running. */
export async function withContext(terminal: Terminal, run: (context: CommandContext) => Promise<void>): Promise<void> {
  const config = readConfig(terminal.env, terminal.cwd);
  declareFile(config.events.file);
  const { openInternalEvents } = await import('#server/publishing.ts');
  const installation = await openInstallation(config, createLog(config.logLevel), { usesRunningServer: true });
  try {
    await run({ ...installation, ...openInternalEvents(config) });
  } finally {
    await installation.close();
  }
}
