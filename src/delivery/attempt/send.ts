/** Composes the request of a delivery and starts the HTTP exchange. */
import type { Clock } from '#core/clock.ts';
import type { Bodies, Body } from './bodies.ts';
import type { Connections } from './http/connections.ts';
import { startExchange, type Exchange, type ExchangeLimits } from './http/exchange.ts';
import { compose, type MessageSettings } from './request.ts';
import type { ActiveTarget, Target } from './target.ts';

export type SendSettings = ExchangeLimits & MessageSettings;

/** A scheduled attempt of a lane, or a test delivery. */
export type Sendable = {
  readonly lane: { readonly webhookId: number; readonly shard: number; readonly target: Target | null };
  readonly target: ActiveTarget;
  readonly delivery: { readonly attempts: number };
};

/** Starts the exchange. Throws if the delivery cannot be rendered or encrypted. */
export function exchangeOf(
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
): Exchange {
  const { connections, clock, settings } = deps;
  const attempt = delivery.attempts + 1;
  const message = compose({ webhookId: lane.webhookId, target, attempt, now }, body, deps);
  const { url, origin } = target;
  // Exchanges of closed lanes are aborted separately.
  const mayBegin = () => lane.target === target && deps.mayBegin(lane.shard);
  const request = { path: url.pathname + url.search, ...message, mayBegin };
  return startExchange(origin, request, { connections, clock, limits: settings });
}
