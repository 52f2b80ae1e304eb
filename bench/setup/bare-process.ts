/**
 * The rival: nothing but undici. The guard, headers and signatures of the worker, as many exchanges at once; undici's own
 * pools, connector and cache of TLS sessions, no database, no lanes, no deadline, nothing kept of an answer.
 */
import { createGuard } from '#delivery/exchange/guard.ts';
import { headersOf } from '#delivery/message/request.ts';
import type { EventRow } from '#delivery/message/queries.ts';
import type { ActiveTarget } from '#delivery/lanes/target.ts';
import { readShape } from '#commerce/shape.ts';
import { buildConnector, Pool } from 'undici';
import { readConfig } from '../../src/config.ts';
import { BASE_URL, KEY } from '../../test/setup/engine.ts';
import { answer } from './child.ts';
import { eventMaker, representationOf } from './seed.ts';

type Endpoint = { pool: Pool; target: ActiveTarget; webhookId: number; event: EventRow; body: Uint8Array };

const { delivery, naming } = readConfig({}, '/');
/** Its cache of sessions has room for all, where the default is 100; HTTP/2 is offered as little as by the worker. */
const connect = buildConnector({
  lookup: createGuard(['127.0.0.0/8']).lookup,
  allowH2: false,
  maxCachedSessions: 100_000,
});
let endpoints: Endpoint[] = [];

const endpointAt = (url: string, index: number): Endpoint => {
  const storeId = 256 * (index + 1);
  const { modifiedAt: _, ...event } = eventMaker(storeId)(0);
  return {
    pool: new Pool(new URL(url).origin, {
      connect,
      connections: null,
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: delivery.idleSocketMs,
    }),
    webhookId: index + 1,
    event: { ...event, id: 0, storeId, version: 1, nonce: 2 ** 40 + index, baseUrl: BASE_URL },
    body: Buffer.from(representationOf(storeId, { ...event, modifiedAt: null })),
    target: {
      isActive: true,
      epoch: 0,
      storeDomain: `store${index}.example.com`,
      format: 'json',
      url: new URL(url),
      origin: new URL(url).origin,
      query: '',
      shape: readShape('', event.type),
      encryptionKey: KEY,
      headers: {},
      ratePerSecond: null,
      retryProfile: 'hour',
    },
  };
};

const dispatch = ({ pool, target, webhookId, event, body }: Endpoint, n: number, done: (error?: Error) => void) => {
  const headers = headersOf({
    event: { ...event, id: 2 ** 48 + n },
    target,
    webhookId,
    attempt: 1,
    body,
    now: new Date(),
    headerPrefix: naming.webhookHeaderPrefix,
    userAgent: 'Halcyon/bench',
  });
  const path = target.url.pathname + target.url.search;
  pool.dispatch(
    { method: 'POST', path, headers, body },
    {
      onRequestStart: () => {},
      onResponseStart: () => {},
      onResponseData: () => {},
      onResponseEnd: () => done(),
      onResponseError: (_controller, error) => done(error),
    },
  );
};

const handlers = {
  start: async (urls: string[]): Promise<void> => void (endpoints = urls.map(endpointAt)),
  /** Sends that many requests, the endpoints in turn, and resolves when all are answered. */
  send: (count: number): Promise<void> => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let next = 0;
    let open = 0;
    const pump = () => {
      while (open < delivery.slots && next < count) {
        const endpoint = endpoints[next % endpoints.length];
        if (endpoint === undefined) return reject(new Error('No endpoints'));
        open += 1;
        dispatch(endpoint, next++, (error) => {
          open -= 1;
          if (error !== undefined) reject(error);
          else if (next === count && open === 0) resolve();
          else pump();
        });
      }
    };
    pump();
    return promise;
  },
};

export type BareProcess = typeof handlers;
answer(handlers, async () => void (await Promise.all(endpoints.map(({ pool }) => pool.destroy()))));
