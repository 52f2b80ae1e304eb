/** The readers of a type of events: the webhooks that a change of EVENTS_FILE, MAPPING_FILE or an embedded relation affects. */
import { resourceTypes } from '#catalog/catalog.ts';
import type { Queryable } from '#db/pool.ts';
import { listReading, type ReadingWebhook } from './webhook-sql.ts';

/** `name`: of an event, a member or an embedded relation; undefined for the whole type. */
export type Target = { type: string; name: string | undefined };

/** `places`: what of the webhook names the target: `events`, `query`, `filter`. */
export type Reader = ReadingWebhook & { places: string[] };

/** Webhooks that one statement reads. */
const PAGE = 1_000;

/** Returns the target of `<type>` or `<type>/<name>`, or what is wrong with the text. */
export function readTarget(text: string): Target | string {
  const [type = '', name, ...rest] = text.split('/');
  const known: readonly string[] = resourceTypes();
  if (rest.length > 0 || name === '') return `${text} must be <type> or <type>/<name>`;
  return known.includes(type) ? { type, name } : `There is no type ${type}; types: ${known.join(', ')}`;
}

/** Returns the names in texts such as `items:item_options,id` and `/_embedded/svc:items/0/code:in`: members, relations and operators. */
const namesIn = (texts: Iterable<string>): Set<string> =>
  new Set([...texts].flatMap((text) => text.split(/[,:/]/).map((name) => name.trim())));

function placesOf({ events, query, filter }: ReadingWebhook, { type, name }: Target): string[] {
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

/** Yields the webhooks of these databases that get events of the type and name the target. */
export async function* readersOf(databases: Iterable<Queryable>, target: Target): AsyncGenerator<Reader> {
  for (const sql of databases)
    for (let page: ReadingWebhook[] = [], after = { shard: -1, id: 0 }; ; after = page.at(-1) ?? after) {
      page = await listReading(sql, { type: target.type, after, limit: PAGE });
      for (const webhook of page) {
        const places = placesOf(webhook, target);
        if (places.length > 0) yield { ...webhook, places };
      }
      if (page.length < PAGE) break;
    }
}
