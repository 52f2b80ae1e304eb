/** The webhooks of a store: read a page of them, make one. */
import type { Tx } from '#db/pool.ts';
import { creating } from '#http/creating.ts';
import { listing } from '#http/listing.ts';
import { type ApiRequest, type Operation } from '#http/operation.ts';
import { idOf } from '#core/ids.ts';
import { invalid, notFound, Problem } from '#core/problem.ts';
import { storeOfAddress } from '#core/principal.ts';
import { holdAccess } from './app-access/app-access-sql.ts';
import { judge, openedWebhook, sealedRequest, sealedTo, show, type WebhookDeps } from './access.ts';
import { addressOfStore, addressOfWebhook, addressOfWebhooks, WEBHOOK_PROPERTIES, WEBHOOK_STATES } from './document.ts';
import { createAnswer } from './pull/answer.ts';
import { createListen } from './pull/listen.ts';
import { createHistory } from './history/operations.ts';
import { createHealth } from './health/operations.ts';
import { createItem } from './item.ts';
import { valueFaults } from './kept.ts';
import {
  countWebhooks,
  findWebhook,
  hasStore,
  insertWebhook,
  listWebhooks,
  lockStore,
  nextNumber,
} from './webhook-sql.ts';
import { recordWebhook } from './audit.ts';
import { createRotateKey } from './rotation/operation.ts';
import { createSchemas, type Schemas, type WebhookPart } from './schema.ts';
import { createTest } from './test-delivery.ts';
import { decide, defaults, readWish, type Settings } from './webhook.ts';

const createList = (deps: WebhookDeps): Operation =>
  listing({
    summary: 'The webhooks of this store, a page at a time',
    rel: 'webhooks',
    title: 'The webhooks of this store',
    properties: WEBHOOK_PROPERTIES,
    searchedBy: { name: null, is_active: null, state: WEBHOOK_STATES },
    handle: async (request) => {
      const { listing: wanted, now } = request;
      const { filters } = wanted;
      const store = storeOfAddress(request);
      const [rows, total] = await Promise.all([
        listWebhooks(deps.sql, store, wanted, now),
        countWebhooks(deps.sql, store, { filters, now }),
      ]);
      if (total === undefined) throw notFound('store');
      const path = addressOfWebhooks(store.storeId, deps.baseUrl);
      const links = [
        { rel: 'store', href: addressOfStore(store.storeId, deps.baseUrl), title: 'The store', crumb: 'Store' },
      ];
      return { path, items: rows.map((row) => show(deps, row, request)), total, links };
    },
  });

/** What a body asks for, and everything that is wrong with it beyond its schema. */
const weigh = async (deps: WebhookDeps, body: WebhookPart) => {
  const wish = readWish(body);
  const forbidden = await judge(deps, wish.url);
  const hasKey = typeof wish.encryptionKey === 'string';
  const { settings, faults } = decide(defaults, wish, { hasKey, forbidden, headerPrefix: deps.headerPrefix });
  return { wish, settings, faults: [...faults, ...valueFaults(settings, defaults)] };
};

/** Writes a new webhook, unless the store has as many as it may: exact, because creators of one store wait in line. */
const add = async (
  tx: Tx,
  deps: WebhookDeps,
  request: Pick<ApiRequest, 'principal' | 'now'>,
  store: { shard: number; storeId: number },
  settings: Settings,
  encryptionKey: string | null,
) => {
  const { sealer, changelog, webhooksPerStore } = deps;
  const { clientId: client, userId: user } = request.principal;
  // The token was checked before the transaction; the access may have ended since.
  const access = { userId: user, storeId: store.storeId };
  if (client !== null && !(await holdAccess(tx, { client, ...access }, { isOnlyTheirs: true })))
    throw notFound('store');
  await lockStore(tx, store);
  const present = await countWebhooks(tx, store);
  if (present === undefined) throw notFound('store');
  if (present >= webhooksPerStore) {
    const message = `A store has at most ${webhooksPerStore} webhooks; delete one first`;
    throw new Problem(409, { code: 'limit_reached', message });
  }
  const id = idOf(await nextNumber(tx), store.shard);
  const sealed = encryptionKey === null ? null : sealer.seal(encryptionKey, sealedTo(id));
  const added = { ...settings, ...sealedRequest(deps, id, settings), ...store, id, client, user };
  await insertWebhook(tx, { ...added, encryptionKey: sealed, now: request.now });
  const row = await findWebhook(tx, { shard: store.shard, id, stores: [store.storeId] });
  if (row === undefined) throw new Error(`Webhook ${id} is not there after its insert`);
  await recordWebhook(tx, changelog, { before: null, after: openedWebhook(deps, row) }, request);
  return row;
};

const createCreate = (deps: WebhookDeps, { whole }: Schemas): Operation =>
  creating({
    summary: 'Creates a webhook; name and format are required, encryption_key too when format is json',
    title: 'Create a webhook',
    input: whole,
    admit: async (request) => {
      const store = storeOfAddress(request);
      // To the platform everything is in reach, what was erased as well.
      if (request.principal.stores === 'all' && !(await hasStore(deps.sql, store))) throw notFound('store');
    },
    review: async (request) => {
      const { faults } = await weigh(deps, request.body);
      return faults;
    },
    prepare: async (request) => {
      const { wish, settings, faults } = await weigh(deps, request.body);
      if (faults.length > 0) throw invalid(...faults);
      const { name, format } = request.body;
      return { settings: { ...settings, name, format }, encryptionKey: wish.encryptionKey ?? null };
    },
    make: async (tx, request, { settings, encryptionKey }) => {
      const store = storeOfAddress(request);
      const row = await add(tx, deps, request, store, settings, encryptionKey);
      return {
        document: show(deps, row, request),
        location: addressOfWebhook(row.id, deps.baseUrl),
        made: async () => deps.onChanged({ shard: store.shard, id: row.id }),
      };
    },
  });

export const createWebhookOperations = (deps: WebhookDeps) => {
  const schemas = createSchemas(deps.versions);
  return {
    list: createList(deps),
    create: createCreate(deps, schemas),
    ...createItem(deps, schemas),
    rotateKey: createRotateKey(deps),
    test: createTest(deps),
    listen: createListen(deps),
    answer: createAnswer(deps),
    ...createHistory(deps),
    ...createHealth(deps),
  } satisfies Record<string, Operation>;
};
