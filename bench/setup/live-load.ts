/** Events of one store, published by HTTP at a pace and delivered to a receiver, while something else runs. */
import { createClient } from '#identity/oauth/clients/clients.ts';
import { until } from '../../test/setup/until.ts';
import { startChild } from './child.ts';
import type { HttpLoadProcess } from './http-load-process.ts';
import { json, platformToken, publishBodies } from './platform-requests.ts';
import type { Latency, ReceiverProcess } from './receiver-process.ts';
import type { Defer } from './run.ts';
import { addWebhook, eventMaker } from './seed.ts';
import type { RunningServer } from './server.ts';

const CONNECTIONS = 64;
const PATIENCE_MS = 60_000;

/** Returns a function that publishes for some seconds and returns how long the events took to the receiver. */
export async function startLiveLoad(
  defer: Defer,
  { origin, sql, secretKey }: RunningServer,
  storeId: number,
): Promise<(perSecond: number, seconds: number) => Promise<Latency>> {
  const now = new Date();
  const load = await startChild<HttpLoadProcess>(defer, import.meta.resolve('./http-load-process.ts'));
  const receiver = await startChild<ReceiverProcess>(defer, import.meta.resolve('./receiver-process.ts'));
  const [url = ''] = await receiver.ask('listen', { ports: 1, pair: undefined });
  await addWebhook(sql, secretKey, { storeId, name: 'live', url, event: 'transaction_log/created', now });
  const platform = await createClient(sql, { name: 'Platform', redirectUris: [], trusted: true, now });
  const authorization = `Bearer ${await platformToken(origin, platform)}`;
  const target = { origin, path: `/stores/${storeId}/events`, authorization, headers: json };
  const bodiesOf = publishBodies(1, [eventMaker(storeId)]);
  return async (perSecond, seconds) => {
    const bodies = bodiesOf(perSecond * seconds);
    await receiver.ask('startTiming', null);
    const { failures } = await load.ask('stream', { target, bodies, connections: CONNECTIONS, perSecond, seconds });
    if (failures.length > 0) throw new Error(`Publishing failed: ${failures[0]}`);
    await until(
      () => receiver.ask('timed', null),
      (count) => count >= bodies.length,
      PATIENCE_MS,
    );
    return receiver.ask('stopTiming', null);
  };
}
