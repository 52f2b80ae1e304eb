/** The installation and the log of a short-lived command. */
import { declareFile } from '#catalog/own/events-file.ts';
import { declareMappings } from '#catalog/own/mapping-file.ts';
import { readConfig, type Config } from '#config/config.ts';
import { createLog, type Log } from '#core/log.ts';
import { readDatabaseTime } from '#db/database-clock.ts';
import type { openInternalEvents } from '#server/publishing.ts';
import { readMap } from '#shards/map-sql.ts';
import { areChangesApplied, enqueue } from '#shards/outbox.ts';
import { enqueueForAll } from '#shards/outbox-sql.ts';
import { openInstallation, type Installation } from './installation.ts';
import type { Terminal } from './terminal.ts';

export type CommandContext = Installation &
  ReturnType<typeof openInternalEvents> & {
    config: Config;
    /** The time of the database when the command began. */
    now: Date;
  };

/** Runs a short-lived command on the database, also while Halcyon is running. */
export async function withContext(terminal: Terminal, run: (context: CommandContext) => Promise<void>): Promise<void> {
  const config = readConfig(terminal.env, terminal.cwd);
  declareFile(config.events.file);
  declareMappings(config.events.mapping);
  const { openInternalEvents, withOutbox } = await import('#server/publishing.ts');
  await using installation = await openInstallation(config, createCommandLog(terminal, config.logLevel), {
    usesRunningServer: true,
  });
  const map = await readMap(installation.sql);
  // A process of `serve` or `deliver` applies the changes to other databases.
  const databases = { map, each: () => [installation.sql] };
  const elsewhere = { databases, outbox: { enqueue, enqueueForAll } };
  const now = await readDatabaseTime(installation.sql);
  await run({ ...installation, config, now, ...withOutbox(openInternalEvents(config), elsewhere) });
  if (map.version > 0 && !(await areChangesApplied(installation.sql)))
    terminal.warn('halcyon: other databases get the change later, from a process of halcyon serve');
}

type Entry = { msg: string; database?: string | number; reason?: string; err?: { message: string } };

/** Returns the log of a command, for the person at the terminal: entries of the level, or a more serious one, as lines without stacks. */
export function createCommandLog(terminal: Pick<Terminal, 'warn'>, level: string): Log {
  const write = (line: string): void => {
    const { msg, database, reason, err } = JSON.parse(line) as Entry;
    const details = [database, err?.message ?? reason].filter((detail) => detail !== undefined);
    terminal.warn(`halcyon: ${[msg, ...details].join(': ')}`);
  };
  return createLog(level, { write });
}
