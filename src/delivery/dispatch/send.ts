/** A delivery put on its way: its bytes, its headers, one exchange. */
import type { Clock } from '#kernel/clock.ts';
import { startExchange, type Exchange, type ExchangeLimits } from '../exchange/exchange.ts';
import type { Connections } from '../exchange/connections.ts';
import type { Bodies } from '../message/bodies.ts';
import { compose, type MessageSettings } from '../message/compose.ts';
import type { Body } from '../message/event-cache.ts';
import type { Lane } from '../lanes/lane.ts';
import type { Pending } from '../lanes/holding.ts';
import type { ActiveTarget } from '../lanes/target.ts';

export type SendSettings = ExchangeLimits & MessageSettings;

/** A turn of its lane, or what goes beside the lanes. */
export type Sendable = {
  readonly lane: Pick<Lane, 'webhookId' | 'shard' | 'target'>;
  readonly target: ActiveTarget;
  readonly delivery: Pick<Pending, 'attempts'>;
};

/** Throws where the delivery cannot be rendered or encrypted. */
export const exchangeOf = (
  { lane, target, delivery }: Sendable,
  body: Body,
  now: Date,
  deps: {
    bodies: Bodies;
    connections: Connections;
    clock: Clock;
    settings: SendSettings;
    mayBegin: (shard: number) => boolean;
  },
): Exchange => {
  const { connections, clock, settings } = deps;
  const attempt = delivery.attempts + 1;
  const message = compose({ webhookId: lane.webhookId, target, attempt, now }, body, deps);
  const { url, origin } = target;
  // Where the lane is closed it is aborted.
  const mayBegin = () => lane.target === target && deps.mayBegin(lane.shard);
  const request = { path: url.pathname + url.search, ...message, mayBegin };
  return startExchange(origin, request, { connections, clock, limits: settings });
};
