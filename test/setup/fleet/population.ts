/** Stores on as many shards, each with webhooks to one receiver, and the platform that publishes for all. */
import type { Sql } from '#db/pool.ts';
import { createSealer } from '#db/seal.ts';
import { idOf, shardOf } from '#core/ids.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createStore } from '#stores/store.ts';
import { KEY } from '../engine.ts';
import type { Place } from './load.ts';

const STORES = 24;
const WEBHOOKS_PER_STORE = 3;

export type Populated = { places: Place[]; platformToken: (origin: string) => Promise<string> };

/** The profile `long` retries after five seconds, `hour` after a minute, which is too long for a test. */
export async function populate(
  sql: Sql,
  { origins, secretKey }: { origins: readonly string[]; secretKey: Buffer },
): Promise<Populated> {
  const sealer = createSealer(secretKey);
  const now = new Date();
  const places: Place[] = [];
  let webhooks = 1_000_000;
  for (let n = 0; n < STORES; n += 1) {
    const details = { name: `Store ${n}`, domain: `s${n}.example.com`, email: 'a@example.com', timeZone: 'UTC' };
    const { id: storeId } = await createStore(sql, { ...details, now });
    const shard = shardOf(storeId);
    const paths: string[] = [];
    for (let w = 0; w < WEBHOOKS_PER_STORE; w += 1) {
      const id = idOf((webhooks += 1), shard);
      const path = `/${storeId}/${w}`;
      await sql`
        insert into webhook (shard, id, store_id, name, format, version, url, query, encryption_key, event_resource, events,
          is_active, headers, retry_profile, date_created, date_modified)
        values (${shard}, ${id}, ${storeId}, 'hook', 'json', '2', ${`${origins[webhooks % origins.length]}${path}`}, null,
          ${sealer.seal(KEY, `webhook:${id}`)}, 'transaction', array['transaction/created'], true, '{}', 'long',
          ${now}, ${now})`;
      paths.push(path);
    }
    places.push({ storeId, paths });
  }
  const platform = await createClient(sql, { name: 'Platform', redirectUris: [], trusted: true, now });
  return {
    places,
    platformToken: async (origin) => {
      const body = new URLSearchParams({ grant_type: 'client_credentials', scope: 'platform', ...platform });
      const response = await fetch(`${origin}/token`, { method: 'POST', body });
      return ((await response.json()) as { access_token: string }).access_token;
    },
  };
}
