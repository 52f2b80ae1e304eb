/** `halcyon events`: the types of events. */
import { readersOf, readTarget } from '#webhooks/readers.ts';
import { CliCommand, printResult } from './command.ts';
import { withContext } from './command-context.ts';
import { UsageError } from './explain.ts';
import type { Terminal } from './terminal.ts';

/** The webhooks that a change of a type of EVENTS_FILE, a mapping or a relation would affect. */
const uses = (terminal: Terminal, text: string): Promise<void> =>
  withContext(terminal, async ({ sql, databases }) => {
    const target = readTarget(text);
    if (typeof target === 'string') throw new UsageError(target);
    const found: { webhook_id: number; store_id: number; name: string; is_active: boolean; in: string[] }[] = [];
    for await (const { id, storeId, name, isActive, places } of readersOf(
      [sql, ...databases.map((one) => one.sql)],
      target,
    ))
      found.push({ webhook_id: id, store_id: storeId, name, is_active: isActive, in: places });
    printResult(terminal, { webhooks: found }, [
      ...found.map(
        (one) =>
          `webhook ${one.webhook_id} of store ${one.store_id}: ${one.in.join(', ')}  ${one.name}${one.is_active ? '' : ' (disabled)'}`,
      ),
      `${found.length} ${found.length === 1 ? 'webhook uses' : 'webhooks use'} ${text}`,
    ]);
  });

export function createEventsCommand(terminal: Terminal): CliCommand {
  const command = new CliCommand('events').description('the types of events, and who reads them');
  command
    .command('uses')
    .description(
      'list the webhooks whose events, query or filter name this: before you change EVENTS_FILE or MAPPING_FILE',
    )
    .argument('<target>', 'a type, or <type>/<name> of an event, a member or an embedded relation')
    .examples('halcyon events uses transaction', 'halcyon events uses transaction/items')
    .action((target: string) => uses(terminal, target));
  return command;
}
