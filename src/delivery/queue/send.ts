/** Composes the request of a delivery and starts the HTTP exchange. */
import type { Clock } from '#core/clock.ts';
import { startExchange, type Exchange, type ExchangeLimits } from '../attempt/http/exchange.ts';
import type { Connections } from '../attempt/http/connections.ts';
import type { Bodies } from '../attempt/bodies.ts';
import { compose, type MessageSettings } from '../attempt/compose.ts';
import type { Body } from '../attempt/event-cache.ts';
import type { Lane } from './lane.ts';
import type { Pending } from './loaded-deliveries.ts';
import type { ActiveTarget } from './target.ts';

export type SendSettings = ExchangeLimits & MessageSettings;

/** A scheduled attempt of a lane, or a test delivery. */
export type Sendable = {
  readonly lane: Pick<Lane, 'webhookId' | 'shard' | 'target'>;
  readonly target: ActiveTarget;
  readonly delivery: Pick<Pending, 'attempts'>;
};

/** Starts the exchange. Throws if the delivery cannot be rendered or encrypted. */
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
  // Exchanges of closed lanes are aborted separately.
  const mayBegin = () => lane.target === target && deps.mayBegin(lane.shard);
  const request = { path: url.pathname + url.search, ...message, mayBegin };
  return startExchange(origin, request, { connections, clock, limits: settings });
};
