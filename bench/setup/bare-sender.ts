/**
 * What every rival sends with: the bare undici pools of 500 origins, the worker's guard, headers and signatures. No deadline,
 * and nothing is kept of an answer.
 */
import type { LookupFunction } from 'node:net';
import { buildConnector, Pool } from 'undici';
import { createGuard } from '#delivery/attempt/http/outbound-guard.ts';
import { formats } from '#delivery/attempt/formats.ts';
import { headersOf, type Sending } from '#delivery/attempt/attempt-request.ts';
import { readConfig } from '../../src/config/config.ts';
import { BASE_URL, KEY } from '../../test/setup/engine.ts';
import { resolverOf } from '../../test/setup/name-server.ts';
import { eventMaker, representationOf } from './seed.ts';

type Endpoint = Pick<Sending, 'event' | 'target' | 'webhookId'> & { pool: Pool; path: string; body: Buffer };

export type BareSender = {
  /** The body that the endpoint with this number gets. */
  bodyOf: (index: number) => Buffer;
  /** Sends event `n` to the endpoint `index` and says when it was answered with a 2xx. */
  dispatch: (index: number, n: number, body: Buffer, done: (error?: Error) => void) => void;
  /** The same as a promise. */
  send: (index: number, n: number, body: Buffer) => Promise<void>;
  stop: () => Promise<void>;
};

/** Exchanges, or jobs, at once. With 1,024 a job took BullMQ 222 µs of processor time instead of 197, and 70 MiB more. */
export const AT_ONCE = 256;
/**
 * Connections an origin. Without a limit a burst for one endpoint opened up to 256, the receiver ran out of descriptors and hung
 * up on BullMQ, which then stood still; with 32 BullMQ made 7,492 a second and graphile-worker 7,323, with 8 8,354 and 8,152,
 * with 2 8,836 and 8,254. The bare loop does not notice, as its endpoints take turns.
 */
const CONNECTIONS = 2;

const { naming } = readConfig({}, '/');
const keys = { current: KEY, next: null };

function endpointAt(url: URL, index: number, connect: buildConnector.connector): Endpoint {
  const storeId = 256 * (index + 1);
  const { modifiedAt: _, ...event } = eventMaker(storeId)(0);
  return {
    pool: new Pool(url.origin, {
      connect,
      connections: CONNECTIONS,
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
      allowH2: false,
    }),
    path: url.pathname + url.search,
    webhookId: index + 1,
    event: {
      ...event,
      id: 0,
      storeId,
      version: 1,
      nonce: 2 ** 40 + index,
      baseUrl: BASE_URL,
      dateCreated: new Date(0),
      traceContext: null,
    },
    body: Buffer.from(representationOf(storeId, { ...event, modifiedAt: null })),
    target: { storeDomain: `store${index}.example.com`, headers: {}, format: 'json', url },
  };
}

export function openSender(urls: readonly string[]): BareSender {
  // The cache of TLS sessions holds all of them; the default is 100.
  const guard = createGuard({ allowed: ['127.0.0.0/8'] }, resolverOf());
  const lookup: LookupFunction = (hostname, _options, callback) =>
    void guard.addressesOf({ hostname, port: 0 }).then(
      (addresses) => callback(null, [...addresses]),
      (error: Error) => callback(error, ''),
    );
  const connect = buildConnector({ lookup, allowH2: false, maxCachedSessions: 100_000 });
  const endpoints = urls.map((url, index) => endpointAt(new URL(url), index, connect));
  const at = (index: number): Endpoint => {
    const endpoint = endpoints[index % endpoints.length];
    if (endpoint === undefined) throw new Error('No endpoints');
    return endpoint;
  };
  const dispatch: BareSender['dispatch'] = (index, n, body, done) => {
    const { pool, path, target, webhookId, event } = at(index);
    const headers = headersOf({
      event: { ...event, id: 2 ** 48 + n },
      target,
      keys,
      webhookId,
      attempt: 1,
      body,
      contentType: formats.json.contentType,
      now: new Date(),
      headerPrefix: naming.webhookHeaderPrefix,
      userAgent: 'Halcyon/bench',
    });
    let status = 0;
    pool.dispatch(
      { method: 'POST', path, headers, body },
      {
        onRequestStart: () => {},
        onResponseStart: (_controller, code) => void (status = code),
        onResponseData: () => {},
        onResponseEnd: () => done(status >= 200 && status < 300 ? undefined : new Error(`Answered ${status}`)),
        onResponseError: (_controller, error) => done(error),
      },
    );
  };
  return {
    bodyOf: (index) => at(index).body,
    dispatch,
    send: (index, n, body) =>
      new Promise((resolve, reject) =>
        dispatch(index, n, body, (error) => (error === undefined ? resolve() : reject(error))),
      ),
    stop: async () => {
      await Promise.all(endpoints.map(({ pool }) => pool.destroy()));
    },
  };
}
