/** Properties of the resource types that only Halcyon publishes. Filters on other names are rejected. */
import type { Comparisons } from '#core/listing.ts';
import type { ResourceType } from './catalog.ts';

const properties: Readonly<Partial<Record<ResourceType, Comparisons>>> = {
  changelog: {
    id: 'text',
    resource: 'text',
    resource_id: 'number',
    action: 'text',
    actor: 'text',
    user: 'number',
    client: 'text',
    before: 'none',
    after: 'none',
    date_created: 'date',
  },
  subscription_mrr_snapshot: { id: 'text', date: 'date', currencies: 'none', date_created: 'date' },
};

/**
 * Returns undefined for types whose properties the publisher chooses, including `subscription_event`, which platforms may
 * publish.
 */
export function internalProperties(type: ResourceType): Comparisons | undefined {
  return properties[type];
}
