/** Stores with a webhook each, and the events that are published to them. */
import { randomBytes } from 'node:crypto';
import type { ResourceType } from '#catalog/catalog.ts';
import { resourceDocument, storedShape } from '#catalog/resource-document.ts';
import type { Sql } from '#db/pool.ts';
import { createSealer } from '#db/seal.ts';
import type { NewEvent } from '#events/publish/publish-request.ts';
import { renderHal } from '#hypermedia/hal.ts';
import { idOf, shardOf } from '#core/ids.ts';
import { createStore } from '#stores/store.ts';
import { insertWebhook, nextNumber } from '#webhooks/webhook-sql.ts';
import { defaults } from '#webhooks/webhook-fields.ts';
import { BASE_URL, KEY } from '../../test/setup/engine.ts';

export const RELATION_PREFIX = 'svc';
/** What a delivery carries; the resource with the fewest links, so that most of it is the publisher's own. */
export const REPRESENTATION_BYTES = 1024;
const TYPE = 'transaction_log';
const ACTION = 'created';
const FIRST_ID = 1_000_000;

const text = randomBytes(REPRESENTATION_BYTES).toString('base64');

const bodyOf = (id: number, padding: number): string => JSON.stringify({ id, note: text.slice(0, padding) });

/** The representation of event `n` in the store, as a delivery carries it. */
export function representationOf(storeId: number, { resourceId, body }: NewEvent): string {
  return renderHal(
    resourceDocument({ storeId, type: TYPE, id: resourceId, baseUrl: BASE_URL, body }, storedShape('', TYPE)),
    {
      baseUrl: BASE_URL,
      relationPrefix: RELATION_PREFIX,
    },
  );
}

/** Makes events of resources of their own whose representation in a store has `REPRESENTATION_BYTES`, give or take a digit. */
export function eventMaker(storeId: number): (n: number) => NewEvent {
  const make = (n: number, padding: number): NewEvent => {
    const id = FIRST_ID + n;
    return { type: TYPE, action: ACTION, resourceId: String(id), modifiedAt: null, body: bodyOf(id, padding) };
  };
  const padding = REPRESENTATION_BYTES - representationOf(storeId, make(0, 0)).length;
  return (n) => make(n, padding);
}

async function addStore(sql: Sql, n: number, now: Date): Promise<number> {
  const store = { name: `Store ${n}`, domain: `store${n}.example.com`, email: 'a@example.com', timeZone: 'UTC' };
  return (await createStore(sql, { ...store, now })).id;
}

/** Adds an active webhook for one kind of event; returns its id. */
export async function addWebhook(
  sql: Sql,
  secretKey: Buffer,
  { storeId, name, url, event, now }: { storeId: number; name: string; url: string; event: string; now: Date },
): Promise<number> {
  const shard = shardOf(storeId);
  const id = idOf(await nextNumber(sql), shard);
  const [resource = ''] = event.split('/');
  await insertWebhook(sql, {
    shard,
    id,
    storeId,
    client: null,
    user: null,
    ...defaults,
    name,
    format: 'json',
    url,
    encryptionKey: createSealer(secretKey).seal(KEY, `webhook:${id}`),
    requestSecrets: null,
    eventResource: resource as ResourceType,
    events: [event],
    now,
  });
  return id;
}

/** Makes a store an address, each with one webhook to it that matches every event; answers the stores' ids. */
export async function seedStores(sql: Sql, urls: readonly string[], secretKey: Buffer): Promise<number[]> {
  const now = new Date();
  return Promise.all(
    urls.map(async (url, index) => {
      const storeId = await addStore(sql, index, now);
      await addWebhook(sql, secretKey, { storeId, name: 'bench', url, event: `${TYPE}/${ACTION}`, now });
      return storeId;
    }),
  );
}
