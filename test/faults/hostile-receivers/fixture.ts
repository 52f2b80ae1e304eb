/** A worker and a publisher as processes, and stores with webhooks to given addresses, created and published to over the API. */
import { readFile } from 'node:fs/promises';
import type { Sql } from '#db/pool.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createStore } from '#stores/store.ts';
import type { Cleanups } from '../../setup/cleanups.ts';
import { scrape, type Exposition } from '../../setup/exposition.ts';
import { openFleet, type Settings } from '../../setup/fleet/fleet.ts';
import { freePort } from '../../setup/free-port.ts';

export type Store = { id: number; webhooks: readonly number[] };

export type Fixture = {
  sql: Sql;
  api: (method: string, path: string, body?: unknown) => Promise<unknown>;
  /** A store with a webhook for each url. */
  addStore: (urls: readonly string[]) => Promise<Store>;
  /** One event each. */
  publish: (store: Store, resources: readonly object[]) => Promise<void>;
  /** Returns how many of these webhooks had an attempt. */
  tried: (webhooks: readonly number[]) => Promise<number>;
  /** Returns the present resident memory of the worker in MiB. */
  rssMiB: () => Promise<number>;
  metrics: () => Promise<Exposition>;
  isWorkerOver: () => boolean;
};

async function inTurn<T, R>(items: readonly T[], atOnce: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const one = async (): Promise<void> => {
    for (let at = next; at < items.length; at = next) {
      next += 1;
      const item = items[at];
      if (item !== undefined) results.push(await work(item));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, one));
  return results;
}

export async function openHostileFixture(ends: Cleanups, env: Settings): Promise<Fixture> {
  const fleet = await openFleet({ ends, leaseMs: 10_000, slots: 1_024 });
  const { sql } = fleet;
  const publisher = await freePort();
  const metricsPort = await freePort();
  await fleet.startPublisher({ env: { PORT: String(publisher) } });
  const worker = await fleet.startWorker({ env: { ...env, METRICS_PORT: String(metricsPort) } });
  const origin = `http://127.0.0.1:${publisher}`;
  const platform = await createClient(sql, { name: 'Test', redirectUris: [], trusted: true, now: new Date() });
  const form = new URLSearchParams({ grant_type: 'client_credentials', scope: 'platform', ...platform });
  const granted = await fetch(`${origin}/token`, { method: 'POST', body: form });
  const { access_token: token } = (await granted.json()) as { access_token: string };
  const api: Fixture['api'] = async (method, path, body) => {
    const response = await fetch(new URL(path, origin), {
      method,
      headers: {
        'SERVICE-API-VERSION': '1',
        Authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === '' ? undefined : (JSON.parse(text) as unknown);
  };
  return {
    sql,
    api,
    addStore: async (urls) => {
      const details = { name: 'Store', domain: 's.example.com', email: 'a@example.com', timeZone: 'UTC' };
      const { id } = await createStore(sql, { ...details, now: new Date() });
      const webhooks = await inTurn(urls, 4, async (url) => {
        const body = { name: 'hook', format: 'json', encryption_key: 'a key', url, events: ['transaction/created'] };
        const made = (await api('POST', `/stores/${id}/webhooks`, body)) as { id: number };
        return made.id;
      });
      return { id, webhooks };
    },
    publish: async ({ id }, resources) => {
      const events = resources.map((resource) => ({ event: 'transaction/created', resource }));
      await api('POST', `/stores/${id}/events`, events);
    },
    tried: async (webhooks) => {
      const [row] = await sql<{ n: number }[]>`
        select count(distinct webhook_id)::int as n from attempt_log where outcome is not null and webhook_id = any(${webhooks})`;
      return row?.n ?? 0;
    },
    rssMiB: async () => {
      const status = await readFile(`/proc/${worker.pid}/status`, 'utf8');
      return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024;
    },
    metrics: () => scrape(`http://127.0.0.1:${metricsPort}`),
    isWorkerOver: worker.isOver,
  };
}
