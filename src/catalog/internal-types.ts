/** What Halcyon writes itself has the properties that it writes, and no others: a name that is none of them is a mistake. */
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

/** Undefined where a publisher decides what there is: also of a `subscription_event`, which platforms may publish. */
export const internalProperties = (type: ResourceType): Comparisons | undefined => properties[type];
