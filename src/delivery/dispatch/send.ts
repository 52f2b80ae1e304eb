/** A delivery put on its way: its bytes, its headers, one exchange. */
import type { Clock } from '#kernel/clock.ts';
import { startExchange, type Exchange, type ExchangeLimits } from '../exchange/exchange.ts';
import type { Connections } from '../exchange/connections.ts';
import type { Bodies } from '../message/bodies.ts';
import type { Body } from '../message/event-cache.ts';
import { headersOf } from '../message/request.ts';
import type { Turn } from './turns.ts';

export type SendSettings = ExchangeLimits & { headerPrefix: string; userAgent: string };

/** Throws where the delivery cannot be rendered. */
export const exchangeOf = (
  { lane, target, delivery }: Turn,
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
  const { bodies, connections, clock, settings } = deps;
  const bytes = bodies.shape(body, target);
  const headers = headersOf({
    event: body.event,
    target,
    webhookId: lane.webhookId,
    attempt: delivery.attempts + 1,
    body: bytes,
    now,
    headerPrefix: settings.headerPrefix,
    userAgent: settings.userAgent,
  });
  const { url, origin } = target;
  const mayBegin = () => !lane.isClosed && lane.target === target && deps.mayBegin(lane.shard);
  const request = { path: url.pathname + url.search, headers, body: bytes, mayBegin };
  return startExchange(origin, request, { connections, clock, limits: settings });
};
