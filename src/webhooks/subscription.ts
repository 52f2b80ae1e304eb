/** What a webhook is subscribed to: `event_resource` and `events` say the same thing in two ways. */
import { eventsOf, resourceOfEvent, resourceTypes, type ResourceType } from '#catalog/catalog.ts';
import type { Fault } from '#core/problem.ts';

/** `events` is the effective list; empty just where there is no resource. */
export type Subscription = { eventResource: ResourceType | null; events: readonly string[] };

const unknownEvent = (event: string): Fault => ({
  code: 'unknown_event',
  message: `There is no event "${event}" to subscribe to; possible: ${resourceTypes.flatMap(eventsOf).join(', ')}`,
  field: 'events',
});

/**
 * The subscription that follows from what a request says of either; `undefined` is what it does not say.
 * The resource alone means every event of it, events alone must be of one resource, both must agree, and neither leaves
 * `present` as it is. An empty list says no more than none: a client that read one sends it back beside its new resource.
 */
export const subscribe = (
  wish: { eventResource?: ResourceType | null; events?: readonly string[] },
  present: Subscription,
): Subscription & { faults: Fault[] } => {
  if (wish.eventResource === undefined && wish.events === undefined) {
    return { eventResource: present.eventResource, events: present.events, faults: [] };
  }
  const events = [...new Set(wish.events)];
  if (events.length === 0) {
    const eventResource = wish.eventResource ?? null;
    return { eventResource, events: eventResource === null ? [] : eventsOf(eventResource), faults: [] };
  }
  const stated = wish.eventResource ?? null;
  const eventResource = stated ?? events.map(resourceOfEvent).find((type) => type !== undefined) ?? null;
  const faults = events.flatMap((event): Fault[] => {
    const type = resourceOfEvent(event);
    if (type === undefined) return [unknownEvent(event)];
    if (type === eventResource) return [];
    const reason = stated === null ? `is not of the same resource as the others` : `is not an event of ${stated}`;
    return [{ code: 'invalid_value', message: `events: "${event}" ${reason}`, field: 'events' }];
  });
  return { eventResource, events, faults };
};
