/** What an app declares, once for all stores: the settings of its webhooks, and the scopes that they need. */
import {
  eventsOf,
  HIDDEN_FROM_APPS,
  readScopeOf,
  resourceOfEvent,
  titleOf,
  type ResourceType,
} from '#catalog/catalog.ts';

/** `events`: of its stores, beside those of the app itself. The query and the filter are those of the webhooks for `events`. */
export type Declaration = { url: string; events: readonly string[]; query: string | null; filter: string | null };

/** The settings of the webhook for a resource, which an app has in each store that lets it in. */
export type Declared = {
  type: ResourceType;
  name: string;
  query: string | null;
  filter: string | null;
  events: readonly string[];
};

const NAME_LENGTH_MAX = 255;

/** Returns the webhooks that an app declares: that for its own events first. Events that are not in the catalog any more are left out. */
export function declaredBy({
  clientId,
  name,
  events,
  query,
  filter,
}: Omit<Declaration, 'url'> & { clientId: string; name: string }): Declared[] {
  const nameOf = (type: ResourceType) =>
    Array.from(`${titleOf(type)} events of ${name}`)
      .slice(0, NAME_LENGTH_MAX)
      .join('');
  const own = { query: null, filter: `client_id=${clientId}`, events: eventsOf('app') };
  const byType = Map.groupBy(events, resourceOfEvent);
  return [
    { type: 'app', name: nameOf('app'), ...own },
    ...[...byType].flatMap(([type, ofType]) =>
      type === undefined ? [] : [{ type, name: nameOf(type), query, filter, events: ofType }],
    ),
  ];
}

/** The scopes with which an app may receive all events of a store; `<resource>:read` suffices for those of its resource. */
const OF_ALL_EVENTS = ['user_full_access', 'store_full_access', 'store_read', 'webhooks', 'events_read'];

/** Returns whether the scope of an app in a store (null: none) covers events of the type; its own events need none. */
export function covers(scope: string | null, type: ResourceType | null): boolean {
  if (type === 'app') return true;
  if (type === null || scope === null || HIDDEN_FROM_APPS.includes(type)) return false;
  const held = new Set(scope.split(' '));
  return [...OF_ALL_EVENTS, readScopeOf(type)].some((name) => held.has(name));
}
