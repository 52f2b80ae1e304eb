/** Stores on as many shards, each with webhooks to one receiver, and the platform that publishes for all. */
import type { Sql } from '#db/pool.ts';
import { createSealer } from '#db/seal.ts';
import { idOf } from '#core/ids.ts';
import { createToken } from '#identity/oauth/oauth-tokens.ts';
import { shardOfNumber } from '#stores/store-document.ts';
import { nextNumber } from '#stores/stores-sql.ts';
import { KEY } from '../engine.ts';
import type { Place } from './load.ts';

const STORES = 24;
const WEBHOOKS_PER_STORE = 3;
/** The name of the webhooks whose deliveries are in the ledger. */
export const POPULATED = 'hook';

export type Populated = { places: Place[]; platformToken: (origin: string) => Promise<string> };

/**
 * Writes accounts and stores into the home database, and webhooks into that of their shard, with a copy of the store.
 * Writes only columns that the oldest version under test has. The profile `long` retries after five seconds, `hour` after a
 * minute, which is too long for a test.
 */
export async function populate(
  sql: Sql,
  given: { origins: readonly string[]; secretKey: Buffer; sqlOf?: (shard: number) => Sql },
): Promise<Populated> {
  const { origins, secretKey, sqlOf = () => sql } = given;
  const sealer = createSealer(secretKey);
  const now = new Date();
  const places: Place[] = [];
  let webhooks = 1_000_000;
  for (let n = 0; n < STORES; n += 1) {
    const number = await nextNumber(sql);
    const shard = shardOfNumber(number);
    const storeId = idOf(number, shard);
    const ofShard = sqlOf(shard);
    for (const database of new Set([sql, ofShard]))
      await database`
        insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
        values (${shard}, ${storeId}, ${`Store ${n}`}, ${`s${n}.example.com`}, 'a@example.com', 'UTC', ${now}, ${now})`;
    const paths: string[] = [];
    for (let w = 0; w < WEBHOOKS_PER_STORE; w += 1) {
      const id = idOf((webhooks += 1), shard);
      const path = `/${storeId}/${w}`;
      await ofShard`
        insert into webhook (shard, id, store_id, name, format, version, url, query, encryption_key, event_resource, events,
          is_active, headers, retry_profile, date_created, date_modified)
        values (${shard}, ${id}, ${storeId}, ${POPULATED}, 'json', '2', ${`${origins[webhooks % origins.length]}${path}`}, null,
          ${sealer.seal(KEY, `webhook:${id}`)}, 'transaction', array['transaction/created'], true, '{}', 'long',
          ${now}, ${now})`;
      paths.push(path);
    }
    places.push({ storeId, paths });
  }
  const secret = createToken('clientSecret');
  const platform = { client_id: 'platform', client_secret: secret.value };
  await sql`
    with platform as (
      insert into client (id, client_id, name, redirect_uris, trusted, date_created)
      values (nextval('id_n'), ${platform.client_id}, 'Platform', '{}', true, ${now}) returning id)
    insert into client_secret (hash, client, date_created) select ${secret.hash}, id, ${now} from platform`;
  return {
    places,
    platformToken: async (origin) => {
      const body = new URLSearchParams({ grant_type: 'client_credentials', scope: 'platform', ...platform });
      const response = await fetch(`${origin}/token`, { method: 'POST', body });
      return ((await response.json()) as { access_token: string }).access_token;
    },
  };
}
