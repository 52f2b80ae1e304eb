/** `halcyon events uses`: which webhooks an operator would change with a type of EVENTS_FILE, a mapping or a relation. */
import { Command } from 'commander';
import { resourceTypes } from '#catalog/catalog.ts';
import { examples } from './command.ts';
import { UsageError } from './explain.ts';
import { withContext } from './command-context.ts';
import { listReading, type ReadingWebhook } from './readers-sql.ts';
import type { Terminal } from './terminal.ts';

/** Webhooks that one statement reads. */
const PAGE = 1_000;

/** Returns the names in texts such as `items:item_options,id` and `/_embedded/svc:items/0/code:in`: members, relations and operators. */
const namesIn = (texts: Iterable<string>): Set<string> =>
  new Set([...texts].flatMap((text) => text.split(/[,:/]/).map((name) => name.trim())));

/** Returns where a webhook reads an event, a member or a relation with this name; of a whole type, everything that it reads. */
function placesOf({ events, query, filter }: ReadingWebhook, type: string, name: string | undefined): string[] {
  const [shape, conditions] = [new URLSearchParams(query ?? ''), new URLSearchParams(filter ?? '')];
  const reads = {
    events: events.includes(`${type}/${name}`),
    query: namesIn(shape.values()).has(name ?? ''),
    // The values of conditions are no names.
    filter: namesIn(conditions.keys()).has(name ?? ''),
  };
  const whole = { events: true, query: query !== null, filter: filter !== null };
  return Object.entries(name === undefined ? whole : reads).flatMap(([place, isRead]) => (isRead ? [place] : []));
}

function readTarget(target: string): { type: string; name: string | undefined } {
  const [type = '', name, ...rest] = target.split('/');
  const known: readonly string[] = resourceTypes();
  if (rest.length > 0 || name === '') throw new UsageError(`${target} must be <type> or <type>/<name>`);
  if (!known.includes(type)) throw new UsageError(`There is no type ${type}; types: ${known.join(', ')}`);
  return { type, name };
}

const uses = (terminal: Terminal, target: string): Promise<void> =>
  withContext(terminal, async ({ sql, databases }) => {
    const { type, name } = readTarget(target);
    const found: { webhook_id: number; store_id: number; name: string; is_active: boolean; in: string[] }[] = [];
    for (const database of [sql, ...databases.map((one) => one.sql)]) {
      for (let page: ReadingWebhook[] = [], after = { shard: -1, id: 0 }; ; after = page.at(-1) ?? after) {
        page = await listReading(database, { type, after, limit: PAGE });
        for (const webhook of page) {
          const { id, storeId, isActive } = webhook;
          const places = placesOf(webhook, type, name);
          if (places.length > 0)
            found.push({ webhook_id: id, store_id: storeId, name: webhook.name, is_active: isActive, in: places });
        }
        if (page.length < PAGE) break;
      }
    }
    if (terminal.isJson === true) return terminal.print(JSON.stringify({ webhooks: found }));
    for (const { webhook_id: id, store_id: storeId, name: called, is_active: isActive, in: places } of found)
      terminal.print(
        `webhook ${id} of store ${storeId}: ${places.join(', ')}  ${called}${isActive ? '' : ' (disabled)'}`,
      );
    terminal.print(`${found.length} ${found.length === 1 ? 'webhook uses' : 'webhooks use'} ${target}`);
    return undefined;
  });

export function createEventsCommand(terminal: Terminal): Command {
  const command = new Command('events').description('the types of events, and who reads them');
  command
    .command('uses')
    .description(
      'list the webhooks whose events, query or filter name this: before you change EVENTS_FILE or MAPPING_FILE',
    )
    .argument('<target>', 'a type, or <type>/<name> of an event, a member or an embedded relation')
    .addHelpText('after', examples('halcyon events uses transaction', 'halcyon events uses transaction/items'))
    .action((target: string) => uses(terminal, target));
  return command;
}
