/** The subscription of a webhook, which `event_resource` and `events` express in two ways. */
import { eventsOf, resourceOfEvent, resourceTypes, type ResourceType } from '#catalog/catalog.ts';
import type { Fault } from '#core/problem.ts';

/** `events` is the effective list; it is empty only if there is no resource. */
export type Subscription = { eventResource: ResourceType | null; events: readonly string[] };

const unknownEvent = (event: string): Fault => ({
  code: 'unknown_event',
  message: `Unknown event "${event}"; possible: ${resourceTypes.flatMap(eventsOf).join(', ')}`,
  field: 'events',
});

/**
 * Returns the subscription after a request. A resource alone means every event of it, events alone must be of one resource, both
 * must agree, and neither leaves `current` unchanged. An empty list counts as absent: a client may send it back with a new
 * resource.
 */
export function resolveSubscription(
  input: { eventResource?: ResourceType | null; events?: readonly string[] },
  current: Subscription,
): Subscription & { faults: Fault[] } {
  if (input.eventResource === undefined && input.events === undefined) {
    return { eventResource: current.eventResource, events: current.events, faults: [] };
  }
  const events = [...new Set(input.events)];
  if (events.length === 0) {
    const eventResource = input.eventResource ?? null;
    return { eventResource, events: eventResource === null ? [] : eventsOf(eventResource), faults: [] };
  }
  const stated = input.eventResource ?? null;
  const eventResource = stated ?? events.map(resourceOfEvent).find((type) => type !== undefined) ?? null;
  const faults = events.flatMap((event): Fault[] => {
    const type = resourceOfEvent(event);
    if (type === undefined) return [unknownEvent(event)];
    if (type === eventResource) return [];
    const reason = stated === null ? `is not of the same resource as the others` : `is not an event of ${stated}`;
    return [{ code: 'invalid_value', message: `events: "${event}" ${reason}`, field: 'events' }];
  });
  return { eventResource, events, faults };
}
