/** The collection of a store's webhooks (list, create), and the operations of the module. */
import { zoneOf } from '#catalog/resource-operations.ts';
import type { Tx } from '#db/pool.ts';
import { creating } from '#http/idempotency.ts';
import { listing } from '#http/list-operation.ts';
import type { ApiRequest, Operation } from '#http/operation.ts';
import { idOf, type StoreKey } from '#core/ids.ts';
import { invalid, notFound, Problem } from '#core/problem.ts';
import { storeOfAddress } from '#core/principal.ts';
import { lockAccess } from './app-access/app-access-sql.ts';
import {
  CHANGE_SCOPES,
  READ_SCOPES,
  appOf,
  findForbiddenReason,
  isOfApp,
  openWebhook,
  sealRequest,
  sealBinding,
  documentFor,
  type WebhookDeps,
  valueFaults,
  requireNotSuspended,
  requireStoreNotSuspended,
  withheldFrom,
} from './webhook-access.ts';
import { addressOfStore, addressOfWebhook, addressOfWebhooks } from './webhook-document.ts';
import {
  WEBHOOK_PROPERTIES,
  WEBHOOK_STATES,
  createSchemas,
  type Schemas,
  type WebhookPart,
  defaults,
  parseInput,
  type Settings,
} from './webhook-fields.ts';
import { requireConsent } from './handshake.ts';
import { createAnswer, createListen } from './listener-operations.ts';
import { createHistory } from './history/history-operations.ts';
import { createRetries, createTest } from './send-now.ts';
import { createHealth, readOverview } from './health/health-operations.ts';
import { createItem } from './webhook-item.ts';
import {
  countOwnWebhooks,
  countWebhooks,
  findWebhook,
  hasStore,
  insertWebhook,
  listWebhooks,
  lockStore,
  nextNumber,
} from './webhook-sql.ts';
import { mergeInput, recordWebhook } from './webhook.ts';
import { createRotateKey } from './rotate-key.ts';

const createList = (deps: WebhookDeps): Operation =>
  listing({
    summary: 'The webhooks of this store, a page at a time',
    scopes: READ_SCOPES,
    rel: 'webhooks',
    title: 'The webhooks of this store',
    properties: WEBHOOK_PROPERTIES,
    zone: (request) => zoneOf(deps.sql, request),
    searchedBy: { name: null, is_active: null, state: WEBHOOK_STATES },
    handle: async (request) => {
      const { listing: query, now } = request;
      const { filters } = query;
      const store = { ...storeOfAddress(request), app: appOf(request.principal) };
      const [rows, total] = await Promise.all([
        listWebhooks(deps.sql, store, query, now),
        countWebhooks(deps.sql, store, { filters, now }),
      ]);
      if (total === undefined) throw notFound('store');
      const path = addressOfWebhooks(store.storeId, deps.config.baseUrl);
      const links = [
        { rel: 'store', href: addressOfStore(store.storeId, deps.config.baseUrl), title: 'The store', crumb: 'Store' },
        { rel: 'event_types', href: `${deps.config.baseUrl}/docs/events`, title: 'Event types' },
        { rel: 'receiving', href: `${deps.config.baseUrl}/docs/receiving`, title: 'Receiving webhooks' },
      ];
      const items = rows.map((row) => documentFor(deps, row, request));
      const withheld = withheldFrom(store.storeId, deps.config.stores);
      return {
        path,
        items,
        total,
        links,
        withheld,
        beside: async () => ({ summary: (await readOverview(deps, store, { now })).document }),
      };
    },
  });

/** Returns the settings of a new webhook and every fault that the schema cannot detect. */
async function validateInput(
  deps: WebhookDeps,
  request: Pick<ApiRequest<WebhookPart>, 'body' | 'params' | 'principal'>,
) {
  const { body, principal } = request;
  const input = parseInput(body);
  const forbidden = await findForbiddenReason(deps, input.url);
  const context = {
    key: input.encryptionKey ?? null,
    forbidden,
    headerPrefix: deps.config.naming.webhookHeaderPrefix,
    isOfApp: isOfApp(principal.clientId, principal.userId),
    isOfPlatformStore: storeOfAddress(request).storeId === deps.config.stores.platformStore,
  };
  const { settings, faults } = mergeInput(defaults, input, context);
  return { input, settings, faults: [...faults, ...valueFaults(settings, defaults)] };
}

/** Inserts a webhook unless the store has reached its limit. The lock of the store makes the limit exact. */
async function insert(
  tx: Tx,
  deps: WebhookDeps,
  request: Pick<ApiRequest, 'principal' | 'now'>,
  store: StoreKey,
  settings: Settings,
  encryptionKey: string | null,
) {
  const { accounts, sealer, changelog } = deps;
  const { webhooksPerStore } = deps.config.webhooks;
  const { clientId: client, userId: user } = request.principal;
  // The token was checked before this transaction; the app may have lost its access since.
  const access = { userId: user, storeId: store.storeId };
  const sameUser = { isSameUserOnly: true };
  await requireNotSuspended(tx, accounts, { caller: client });
  if (client !== null && !(await lockAccess(await accounts.locked(tx), { client, ...access }, sameUser)))
    throw notFound('store');
  await lockStore(tx, store);
  if (!(await hasStore(tx, store))) throw notFound('store');
  await requireStoreNotSuspended(tx, store);
  if ((await countOwnWebhooks(tx, store)) >= webhooksPerStore) {
    const message = `A store has at most ${webhooksPerStore} webhooks: delete one first`;
    throw new Problem(409, { code: 'limit_reached', message });
  }
  const id = idOf(await nextNumber(tx), store.shard);
  const sealed = encryptionKey === null ? null : sealer.seal(encryptionKey, sealBinding(id));
  const inserted = { ...settings, ...sealRequest(deps, id, settings), ...store, id, client, user };
  await insertWebhook(tx, { ...inserted, encryptionKey: sealed, now: request.now });
  const row = await findWebhook(tx, { shard: store.shard, id, stores: [store.storeId], app: null });
  if (row === undefined) throw new Error(`Webhook ${id} not found after its insert`);
  await recordWebhook(tx, changelog, { before: null, after: openWebhook(deps, row) }, request);
  return row;
}

const createCreate = (deps: WebhookDeps, { whole }: Schemas): Operation =>
  creating({
    summary: 'Creates a webhook; name and format are required, encryption_key too when format is json',
    scopes: CHANGE_SCOPES,
    title: 'Create a webhook',
    input: whole,
    admit: async (request) => {
      const store = storeOfAddress(request);
      // The platform may access every store id, so it could name an erased store.
      if (request.principal.stores === 'all' && !(await hasStore(deps.sql, store))) throw notFound('store');
    },
    review: async (request) => {
      const { faults } = await validateInput(deps, request);
      return faults;
    },
    prepare: async (request) => {
      const { input, settings, faults } = await validateInput(deps, request);
      if (faults.length > 0) throw invalid(...faults);
      await requireConsent(deps, settings.url, storeOfAddress(request).storeId);
      const { name, format } = request.body;
      return { settings: { ...settings, name, format }, encryptionKey: input.encryptionKey ?? null };
    },
    make: async (tx, request, { settings, encryptionKey }) => {
      const store = storeOfAddress(request);
      const row = await insert(tx, deps, request, store, settings, encryptionKey);
      return {
        document: documentFor(deps, row, request),
        location: addressOfWebhook(row.id, deps.config.baseUrl),
      };
    },
  });

export function createWebhookOperations(deps: WebhookDeps) {
  const schemas = createSchemas(deps.config.webhooks.versions);
  return {
    list: createList(deps),
    create: createCreate(deps, schemas),
    ...createItem(deps, schemas),
    rotateKey: createRotateKey(deps),
    test: createTest(deps),
    listen: createListen(deps),
    answer: createAnswer(deps),
    ...createHistory(deps),
    ...createRetries(deps),
    ...createHealth(deps),
  } satisfies Record<string, Operation>;
}
