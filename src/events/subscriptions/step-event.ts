/** The subscription_event that tells of a step. */
import type { Step } from '#commerce/lifecycle.ts';
import { formatDate } from '#hypermedia/date.ts';
import type { Value } from '#hypermedia/document.ts';
import type { NewEvent } from '../request.ts';

type About = {
  subscription: { readonly [name: string]: Value };
  subscriptionId: string;
  now: Date;
  timeZone: string;
};

/** `id` is the event's own, which the resource shares. The subscription as it is after the step is embedded. */
export const stepEvent = (id: number, step: Step, { subscription, subscriptionId, now, timeZone }: About): NewEvent => {
  const { _embedded, _links, ...own } = subscription;
  const resource = {
    id,
    subscription_id: subscriptionId,
    event: step,
    date_created: formatDate(now, timeZone),
    _embedded: { subscription: own },
  };
  return {
    type: 'subscription_event',
    action: 'created',
    resourceId: String(id),
    modifiedAt: null,
    body: JSON.stringify(resource),
  };
};
