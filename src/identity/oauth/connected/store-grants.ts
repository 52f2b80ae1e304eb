/**
 * The apps of a store: {base_url}/stores/<id>/grants. The members, the platform and apps with access see who let which app in; an app
 * sees its own entries. An owner of the store disconnects each app, and a member those that the member connected.
 */
import { isInPerson, isPerson, managesStore, callingApp, storeOfAddress, type Principal } from '#core/principal.ts';
import { conflict, notFound } from '#core/problem.ts';
import { actorOf } from '#changelog/changelog.ts';
import { transaction } from '#db/pool.ts';
import { propertiesOf } from '#http/field-table.ts';
import { listing } from '#http/list-operation.ts';
import { guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import { idIn } from '#http/route.ts';
import { formatDate } from '#hypermedia/date.ts';
import { viewType, type Document, type Link } from '#hypermedia/document.ts';
import { originOf } from '#identity/accounts/audit.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { inAvailable } from '#shards/map.ts';
import { addressOfMembers } from '#stores/members/member.ts';
import { addressOfStore } from '#stores/store-document.ts';
import { storeOf } from '#stores/store.ts';
import { documentHost } from '../protocol-requests.ts';
import { logoPath } from '../clients/logo.ts';
import { type AppsDeps, GRANT_PROPERTIES, grantFields } from '../grants.ts';
import { permissionWords, scopeTextOfGrants } from '../scope.ts';
import { listOfApps, type WebhookOfApp } from '../webhooks-of-apps-sql.ts';
import { disconnected, endWords, revokeGrantsOf } from './connected.ts';
import { addressOfGrant, linksToApp } from './grants-api.ts';
import {
  countStoreGrants,
  findStoreGrant,
  listStoreGrants,
  type StoreGrantRow,
  type StoreOfGrants,
} from './connected-sql.ts';

function addressOfStoreGrants(storeId: number, baseUrl: string): string {
  return `${addressOfStore(storeId, baseUrl)}/grants`;
}

export type StoreGrantView = {
  name: string;
  company: string | null;
  isVerified: boolean;
  /** The path of the logo; null without one. */
  logo: string | null;
  /** Who connected the app, in words. */
  by: string;
  /** The access is to the whole account of the member, which only the member ends. */
  isOfAccount: boolean;
  permissions: readonly string[];
  since: string;
  lastUsed: string | null;
  /** When it ends; null if it is kept. */
  ends: string | null;
  webhooks: readonly {
    name: string;
    address: string;
    isActive: boolean;
    isForApp: boolean;
    events: readonly string[];
  }[];
  /** What its end stops, what continues, and for how long. */
  end: string;
  address: string;
  /** The address of the same among the connected apps of the reader; null if another member connected it. */
  own: string | null;
  version: number;
  mayEnd: boolean;
};

export const storeGrantView = viewType<StoreGrantView>('store_grant');

type Shown = {
  storeId: number;
  /** The time zone of the store. */
  timeZone: string;
  principal: Principal;
  baseUrl: string;
  /** The root of the pages. */
  authUrl: string;
  webhooks: readonly WebhookOfApp[];
};

/** What a person sees of the account of another member. */
const MAY_ACCOUNT = 'Do everything that this member can do, in this store and in all other stores of the member';

/** Returns the webhooks of the app that this member connected: those that it created for the member, and the one that it declares. */
const webhooksOf = ({ client, userId }: StoreGrantRow, { webhooks }: Shown): readonly WebhookOfApp[] =>
  webhooks.filter((one) => one.client === client && (one.isForApp || one.userId === userId));

function linksOf(row: StoreGrantRow, self: string, shown: Shown): Link[] {
  const { storeId, principal, baseUrl } = shown;
  const { userId, id } = row;
  return [
    { rel: 'self', href: self, title: 'This app of the store' },
    { rel: 'store', href: addressOfStore(storeId, baseUrl), title: 'The store', crumb: 'Store' },
    { rel: 'grants', href: addressOfStoreGrants(storeId, baseUrl), title: 'All apps of the store', crumb: 'Apps' },
    { rel: 'member', href: `${addressOfMembers(storeId, baseUrl)}/${userId}`, title: 'The member who connected it' },
    ...(isPerson(principal, userId)
      ? [{ rel: 'grant', href: addressOfGrant(id, baseUrl), title: 'The same among your connected apps' }]
      : []),
    ...webhooksOf(row, shown).map(({ id: webhook, name }) => ({
      rel: 'webhook',
      href: `${baseUrl}/webhooks/${webhook}`,
      title: name,
    })),
    ...linksToApp(row, { principal, baseUrl }),
  ];
}

const describe = propertiesOf(grantFields);

/** Returns the Document of an app that a member has let into a store. */
export function storeGrantDocument(row: StoreGrantRow, shown: Shown): Document {
  const { storeId, timeZone, principal, baseUrl, authUrl } = shown;
  const { id, userId, clientId, logoDate } = row;
  const isOfAccount = row.storeId === null;
  const webhooks = webhooksOf(row, shown);
  const created = webhooks.filter(({ isForApp }) => !isForApp);
  const active = created.filter(({ isActive }) => isActive).length;
  const email = principal.scope === 'platform' || isInPerson(principal) ? row.email : null;
  const address = `${addressOfMembers(storeId, baseUrl)}/${userId}/grants/${id}`;
  const isReader = isPerson(principal, userId);
  return {
    name: 'grant',
    title: row.name,
    // A grant never changes until it ends.
    version: id,
    ...(isOfAccount && { isUnchangeable: true as const }),
    links: linksOf(row, address, shown),
    embedded: [],
    properties: describe(row, timeZone, {
      user_email: email,
      scope: scopeTextOfGrants(row.storeId, row.permissions),
      webhooks_total: created.length,
      webhooks_active: active,
    }),
    ...storeGrantView.attach({
      name: row.name,
      company: documentHost(row.clientId) ?? row.company,
      isVerified: row.isVerified,
      logo: logoDate && logoPath(authUrl, clientId, logoDate),
      by: email ?? `User ${userId}`,
      isOfAccount,
      permissions: permissionWords(row, MAY_ACCOUNT),
      since: formatDate(row.dateCreated, timeZone),
      lastUsed: row.dateUsed && formatDate(row.dateUsed, timeZone),
      ends: row.dateEnds && formatDate(row.dateEnds, timeZone),
      webhooks: webhooks.map(({ id: webhook, name, isActive, isForApp, events }) => {
        return { name, address: `${baseUrl}/webhooks/${webhook}`, isActive, isForApp, events };
      }),
      end: endWords({
        active,
        stopping: row.hasAccount ? 0 : active,
        declares: webhooks.some(({ isForApp }) => isForApp),
        isLast: row.entries === 1,
      }),
      address,
      own: isReader ? addressOfGrant(id, baseUrl) : null,
      version: id,
      mayEnd: !isOfAccount && (isReader || managesStore(principal, storeId)),
    }),
  };
}

const OF_ACCOUNT =
  'This app has access to the whole account of the member: only the member ends it, on the account page; without the membership it has no access to this store';

/** Returns the store of the address with the app that calls. Throws a 404 if the caller has no access to the store. */
function storeOfGrants(request: Pick<ApiRequest, 'params' | 'principal'>): StoreOfGrants {
  return { ...storeOfAddress(request), app: callingApp(request.principal)?.id ?? null };
}

const entryOf = (request: Pick<ApiRequest, 'params'>) => ({
  userId: idIn(request, 'user_id', 'member'),
  id: idIn(request, 'grant_id', 'grant'),
});

const createRemove = ({ sql, config: { baseUrl } }: Runtime, { effects }: AppsDeps): Operation =>
  guarded({
    title: 'Disconnect the app',
    isConditional: true,
    summary:
      'Revokes the access that this member gave the app to the store: its tokens stop working immediately, and its webhooks are disabled, unless the member has given it access to the account; for signed-in owners, the scope platform, and the member in person',
    access: 'self',
    handle: async (request) => {
      const store = storeOfGrants(request);
      const hasOther = await transaction(sql, async (tx) => {
        const row = await findStoreGrant(tx, store, entryOf(request));
        if (row === undefined) throw notFound('grant');
        if (row.storeId === null) throw conflict('access_of_account', OF_ACCOUNT);
        request.unmodified(row.id);
        const { client, userId, storeId } = row;
        const by = { actor: actorOf(request.principal), origin: originOf(request), now: request.now };
        // 0 if a concurrent request has revoked them; the grants are locked there, in the order of their ids.
        if ((await revokeGrantsOf(tx, effects, { userId, storeId, clientId: client, ...by })) === 0)
          throw notFound('grant');
        return (await countStoreGrants(tx, { ...store, app: client })) > 0;
      });
      return { status: 204, next: addressOfStoreGrants(store.storeId, baseUrl), done: disconnected(hasOther) };
    },
  });

export function createStoreGrantOperations(runtime: Runtime, deps: AppsDeps) {
  const { sql, config } = runtime;
  const { baseUrl, authUrl } = config;
  const documentsOf = async (
    { principal }: Pick<ApiRequest, 'principal'>,
    store: StoreOfGrants & { timeZone: string },
    rows: readonly StoreGrantRow[],
  ): Promise<Document[]> => {
    const clients = [...new Set(rows.map(({ client }) => client))];
    const webhooks =
      clients.length === 0
        ? []
        : await inAvailable(deps.eachDatabase, (database) => listOfApps(database, store, clients));
    return rows.map((row) => storeGrantDocument(row, { ...store, principal, baseUrl, authUrl, webhooks }));
  };
  return {
    list: listing({
      summary: 'Lists the apps that members have let into the store, in pages',
      scopes: ['store_read'],
      rel: 'grants',
      title: 'The apps of this store',
      properties: GRANT_PROPERTIES,
      zone: async (request) => (await storeOf(sql.reads, request)).timeZone,
      handle: async (request) => {
        const { listing: query } = request;
        const store = storeOfGrants(request);
        const { storeId } = store;
        const { timeZone } = await storeOf(sql.reads, request);
        const [rows, total] = await Promise.all([
          listStoreGrants(sql, store, query),
          countStoreGrants(sql, store, query),
        ]);
        const items = await documentsOf(request, { ...store, timeZone }, rows);
        const links = [{ rel: 'store', href: addressOfStore(storeId, baseUrl), title: 'The store', crumb: 'Store' }];
        const of = { storeId, webhookId: null };
        return { path: addressOfStoreGrants(storeId, baseUrl), items, total, links, of };
      },
    }),
    read: guarded({
      summary: 'Returns an app that a member has let into the store',
      scopes: ['store_read'],
      handle: async (request) => {
        const store = storeOfGrants(request);
        const { timeZone } = await storeOf(sql.reads, request);
        const row = await findStoreGrant(sql, store, entryOf(request));
        const [document] = row === undefined ? [] : await documentsOf(request, { ...store, timeZone }, [row]);
        if (document === undefined) throw notFound('grant');
        return { status: 200, document };
      },
    }),
    remove: createRemove(runtime, deps),
  };
}
