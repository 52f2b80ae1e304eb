/** `halcyon shards`: which database has which shards, and moves between them. */
import { Option } from 'commander';
import type { Measure } from '#shards/move/move-sql.ts';
import { CliCommand } from '../command.ts';
import type { Terminal } from '../terminal.ts';
import { drop, moveShards, plan, status } from './move-command.ts';

const MOVE_HELP = `
Copies the rows by logical replication while all processes keep running, then refuses changes of these shards (503) for less
than two seconds, and makes the target the owner. An interrupted run is continued by the same command, or undone by the same
command with --abort. The source needs wal_level=logical, and its server must be reachable from that of the target
(docs/operating.md, "Move shards").`;

export function createShardsCommand(terminal: Terminal): CliCommand {
  const command = new CliCommand('shards').description('the databases that own the shards');
  command
    .command('status')
    .description('show which database has which shards, and moves that are under way')
    .examples('halcyon shards status', 'halcyon shards status --json')
    .action(() => status(terminal));
  command
    .command('plan')
    .description('print the moves that make the databases even, and execute none')
    .requiredOption('--even', 'as much in each database as whole shards allow')
    .addOption(
      new Option('--by <measure>', 'what is even, estimated from samples').choices(['bytes', 'rows']).default('bytes'),
    )
    .option('--with <url...>', 'a new database, which gets its share; can be repeated')
    .examples('halcyon shards plan --even', 'halcyon shards plan --even --with postgres://c/halcyon')
    .action((options: { by: Measure; with?: string[] }) => plan(terminal, options));
  command
    .command('move')
    .description('move shards to another database')
    .argument('<ranges>', 'shards such as 64-127 or 64-127,200')
    .requiredOption('--to <database>', 'the address of a database, or its name in the map')
    .option('--abort', 'undo the move, before its switch')
    .addHelpText('after', MOVE_HELP)
    .examples('halcyon shards move 64-127 --to postgres://c/halcyon', 'halcyon shards move 64-127 --to home --abort')
    .action((ranges: string, options: { to: string; abort?: true }) => moveShards(terminal, ranges, options));
  command
    .command('drop-moved')
    .description('delete the rows that moved shards have left in their former databases')
    .option('--now', 'also if the shards were moved less than an hour ago')
    .examples('halcyon shards drop-moved')
    .action((options: { now?: true }) => drop(terminal, options));
  return command;
}
