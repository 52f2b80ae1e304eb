/**
 * Webhooks that an app created depend on its access: they are disabled in the transaction that ends its last grant for the store, and may
 * be enabled again under a new grant. Of those that an app declares, the one for its own events is sent each change of its access, and each of
 * the others is active while the scope of all grants covers its events. While the app is suspended, all are disabled; while the store is,
 * all its webhooks are.
 */
import { HALCYON, inPerson, type Actor, type Changelog } from '#changelog/changelog.ts';
import type { ResourceType } from '#catalog/catalog.ts';
import type { Queryable } from '#db/pool.ts';
import type { InternalEvent, InternalEventWriter } from '#events/publish/internal-event.ts';
import type { Accounts } from '#shards/map.ts';
import type { WebhookDeps } from '../webhook-access.ts';
import type { InactiveReason } from '../webhook-fields.ts';
import {
  findDeclaring,
  isOfStore,
  listAppsOf,
  listInstalled,
  listScopes,
  listStoresOf,
  listStandings,
  lockApps,
  lockSuspensions,
  readClientIds,
  type DeclaringApp,
  type Reach,
  type Scope,
  type Standing,
} from './app-access-sql.ts';
import {
  countStopped,
  insertMissing,
  listDeclaringIn,
  lockForApps,
  lockInScope,
  prepareForErasure,
  resumeStopped,
  type LockedForApp,
  type Page,
  type WebhookInScope,
  type WebhookRef,
  updateActivity,
  updateScopes,
} from './app-webhooks-sql.ts';
import { covers, declaredBy } from './declared.ts';
import { formatDate } from '#hypermedia/date.ts';
import type { StoreKey } from '#core/ids.ts';

const REASON: InactiveReason = 'access_ended';

/** A webhook with the reason why it was and is disabled; null while it is active. */
type Switched = WebhookRef & { before: InactiveReason | null; after: InactiveReason | null };

/** Returns why a webhook has to be disabled. Of one that the app declares the scope counts, which `announceTo` compares afterwards. */
function inactiveReasonOf(
  standing: Standing,
  { isForApp, type, scope }: Pick<WebhookInScope, 'isForApp' | 'type' | 'scope'>,
): InactiveReason | null {
  if (standing === 'suspended') return 'suspended';
  return (isForApp ? covers(scope, type) : standing === 'access') ? null : REASON;
}

/** Enables and disables the webhooks in the scope as the access and the suspensions require, and returns those that it changed. */
async function switchWebhooks(tx: Queryable, accounts: Accounts, scope: Scope, now: Date): Promise<Switched[]> {
  const switched: Switched[] = [];
  for await (const locked of pagesOf((page) => lockInScope(tx, scope, page))) {
    const standings = await listStandings(accounts.of(tx), locked);
    const changed = locked.flatMap((webhook, index): Switched[] => {
      const after = inactiveReasonOf(standings[index] ?? 'none', webhook);
      const isSwitchable = webhook.isActive || webhook.before === 'suspended';
      return isSwitchable && webhook.before !== after ? [{ ...webhook, after }] : [];
    });
    await updateActivity(tx, changed, now);
    switched.push(...changed);
  }
  return switched;
}

const factsOf = (reason: InactiveReason | null) => ({
  is_active: reason === null ? '1' : '0',
  inactive_reason: reason,
});

export function createAppAccess({
  accounts,
  changelog,
  writeInternalEvents,
  announce,
}: AnnouncingDeps & { changelog: Changelog }) {
  const recordAndNotify = async (tx: Queryable, webhooks: readonly Switched[], actor: Actor, now: Date) => {
    const changes = webhooks.map(({ id, storeId, before, after }) => {
      const action = before === null ? 'deactivated' : 'changed';
      const facts = { before: factsOf(before), after: factsOf(after) };
      return { storeId, actor, resource: 'webhook', resourceId: id, action, ...facts } as const;
    });
    await changelog.record(tx, changes, now);
    await announceWebhooks(tx, announce, webhooks);
  };
  return {
    /**
     * Applies the beginning or end of grants in the scope, or of the suspension of its app or, without an app and a user, of its store:
     * disables the webhooks whose apps no longer have access, enables those that are no longer suspended, records each in the changelog,
     * and writes the events of apps that declare a webhook. `userId` is the user of the grants.
     */
    accessChanged: async (tx: Queryable, scope: Scope & { reach?: Reach | undefined }, now: Date): Promise<void> => {
      const ofStore = isOfStore(scope) ? await listDeclaringIn(tx, scope.storeId) : undefined;
      // Locks the apps before their webhooks, as a suspension does.
      const apps = await findDeclaring(accounts.of(tx), scope, ofStore ?? scope.reach?.apps);
      await recordAndNotify(tx, await switchWebhooks(tx, accounts, scope, now), HALCYON, now);
      await announceTo(tx, { accounts, writeInternalEvents, announce }, { ...scope, apps }, now);
    },
    /**
     * Locks the apps that declare webhooks of a store. Call it before the store is locked against all: a change of an app locks the app and
     * then its stores. One that is let in between may deadlock.
     */
    lockAppsOf: async (tx: Queryable, storeId: number): Promise<void> =>
      lockApps(accounts.of(tx), await listDeclaringIn(tx, storeId)),
    /** Returns the apps and stores of the scope, for a call of `accessChanged` after the transaction. */
    readReach,
    /** Returns, for each store, how many webhooks of the app are disabled because its access ended. */
    countStopped,
    /** Enables those webhooks again for the user who granted access again. */
    resumeWebhooks: async (
      tx: Queryable,
      target: { client: number; userId: number; storeIds: readonly number[] },
      now: Date,
    ): Promise<void> => {
      const resumed = await resumeStopped(tx, target, now);
      await recordAndNotify(tx, resumed, inPerson(target.userId), now);
    },
  };
}

/** Stores per statement: an app that is deleted may be installed in 100,000. */
const STORES_PER_PAGE = 2_000;

/** The scopes of an app in a store before and after a change; null if it was or is not installed. */
type ScopeChange = WebhookRef & {
  client: number;
  type: ResourceType | null;
  before: string | null;
  after: string | null;
};

export type AnnouncingDeps = {
  accounts: Accounts;
  writeInternalEvents: InternalEventWriter;
  announce: WebhookDeps['announce'];
};

/** Yields the pages of webhooks that a statement locks, in the order of their keys. */
async function* pagesOf<Row extends Page['after']>(lock: (page: Page) => Promise<Row[]>): AsyncGenerator<Row[]> {
  for (let after: Page['after'] = { shard: -1, id: 0 }; ;) {
    const page = await lock({ after, limit: STORES_PER_PAGE });
    const last = page.at(-1);
    if (last === undefined) return;
    yield page;
    if (page.length < STORES_PER_PAGE) return;
    after = last;
  }
}

/** Makes workers reload the webhooks when the transaction commits. */
export async function announceWebhooks(
  tx: Queryable,
  announce: WebhookDeps['announce'],
  webhooks: readonly Pick<WebhookRef, 'shard' | 'id'>[],
): Promise<void> {
  for (const [shard, ofShard] of Map.groupBy(webhooks, (webhook) => webhook.shard))
    await announce(
      tx,
      shard,
      ofShard.map(({ id }) => id),
    );
}

type AppAction = (InternalEvent & { type: 'app' })['action'];

function actionOf({ before, after }: Pick<ScopeChange, 'before' | 'after'>): AppAction {
  if (before === null) return 'installed';
  return after === null ? 'uninstalled' : 'scopes_changed';
}

const eventOf = (
  change: ScopeChange,
  { action, clientId, user }: { action: AppAction; clientId: string; user: number | null },
  now: Date,
): InternalEvent => ({
  storeId: change.storeId,
  type: 'app',
  action,
  resource: ({ id, timeZone }) => ({
    id,
    client_id: clientId,
    store_id: change.storeId,
    scope: change.after,
    previous_scope: change.before,
    user,
    date_created: formatDate(now, timeZone),
  }),
});

/** Inserts the webhooks of the apps that are missing in stores of the scope, those for events of the store where the app's scope covers them. */
async function insertMissingWebhooks(
  tx: Queryable,
  accounts: Queryable,
  { apps, ...scope }: AnnouncedScope,
  now: Date,
) {
  const installed = Map.groupBy(await listInstalled(accounts, apps, scope), ({ client }) => client);
  for (const app of apps) {
    const ofApp = installed.get(app.client) ?? [];
    for (let from = 0; from < ofApp.length; from += STORES_PER_PAGE) {
      const page = ofApp.slice(from, from + STORES_PER_PAGE);
      const scopes = app.events.length === 0 ? [] : await listScopes(accounts, page);
      const installs = page.map(({ storeId, userId }, index) => ({ storeId, userId, scope: scopes[index] ?? null }));
      for (const declared of declaredBy(app)) {
        const covered = installs.filter(({ scope: held }) => covers(held, declared.type));
        if (covered.length > 0) await insertMissing(tx, app, declared, covered, now);
      }
    }
  }
}

/** Returns the stores of the scope; undefined for all. */
async function storesOf(accounts: Queryable, { userId, storeId }: Scope): Promise<readonly number[] | undefined> {
  if (storeId != null) return [storeId];
  return userId === undefined ? undefined : listStoresOf(accounts, userId);
}

/** Returns the apps and stores of a scope. Call it before the grants and memberships that it names are deleted. */
async function readReach(accounts: Queryable, scope: Scope): Promise<Reach> {
  return { apps: await listAppsOf(accounts, scope), stores: await storesOf(accounts, scope) };
}

/**
 * Returns the changes of locked webhooks, except in suspended stores. The scopes are read after the webhooks are locked, so they include
 * grants that other transactions have committed under the lock.
 */
async function changesOf(accounts: Queryable, locked: readonly LockedForApp[]): Promise<ScopeChange[]> {
  const scopes = await listScopes(accounts, locked);
  const standings = await listStandings(accounts, locked);
  return locked.flatMap(({ scope: before, ...webhook }, index) => {
    const after = scopes[index];
    // As null, a missing scope would be sent as the end of the access.
    if (after === undefined) throw new Error(`No scope was read for webhook ${webhook.id}`);
    return before === after || standings[index] === 'suspended' ? [] : [{ ...webhook, before, after }];
  });
}

/** `isSilent`: without events, for an app that declares its webhooks after it was installed. */
type AnnouncedScope = Scope & { apps: readonly DeclaringApp[]; isSilent?: boolean; reach?: Reach | undefined };

/**
 * Writes an event `app/installed`, `app/scopes_changed` or `app/uninstalled` for each change of the scope of these locked apps in a store of
 * the scope, makes the webhooks that are missing, and enables and disables those for events of the store. The webhook of the app in the store
 * has the scope that was sent last, and its lock makes each change one event: grants of several users for the same store, or for the
 * account, count together.
 */
export async function announceTo(
  tx: Queryable,
  { accounts: accountsOf, writeInternalEvents, announce }: AnnouncingDeps,
  scope: AnnouncedScope,
  now: Date,
): Promise<void> {
  const accounts = accountsOf.of(tx);
  const { apps } = scope;
  if (apps.length === 0) return;
  const clientIds = new Map(apps.map(({ client, clientId }) => [client, clientId]));
  const clientIdOf = (client: number): string => {
    const clientId = clientIds.get(client);
    if (clientId === undefined) throw new Error(`App ${client} declares no webhook`);
    return clientId;
  };
  await insertMissingWebhooks(tx, accounts, scope, now);
  const stores = scope.reach === undefined ? await storesOf(accounts, scope) : scope.reach.stores;
  const lock = (page: Page) => lockForApps(tx, apps, stores, page);
  for await (const locked of pagesOf(lock)) {
    const changes = await changesOf(accounts, locked);
    if (changes.length === 0) continue;
    await updateScopes(tx, changes, now);
    await announceWebhooks(tx, announce, changes);
    const ofApps = changes.filter(({ type }) => type === 'app');
    if (scope.isSilent !== true && ofApps.length > 0)
      await writeInternalEvents(
        tx,
        ofApps.map((one) =>
          eventOf(one, { action: actionOf(one), clientId: clientIdOf(one.client), user: scope.userId ?? null }, now),
        ),
        now,
      );
  }
}

/**
 * Writes an event `app/store_erased` for each app that declares a webhook in the store, and returns the ids of these webhooks, which are kept
 * until the event is delivered (`webhooks_of_erased_stores`). The event has no deliveries to other webhooks if these are deleted already.
 */
export async function announceErasure(
  tx: Queryable,
  { accounts, writeInternalEvents }: Pick<AnnouncingDeps, 'accounts' | 'writeInternalEvents'>,
  store: StoreKey,
  now: Date,
): Promise<number[]> {
  const suspended = await lockSuspensions(accounts.of(tx), await listDeclaringIn(tx, store.storeId));
  const declared = await prepareForErasure(tx, store, [...suspended.keys()], now);
  if (declared.length === 0) return [];
  const clientIds = await readClientIds(
    accounts.of(tx),
    declared.map(({ client }) => client),
  );
  const events = declared.flatMap(({ scope: before, ...webhook }) => {
    const clientId = clientIds.get(webhook.client);
    const change = { ...webhook, before, after: null };
    return clientId === undefined ? [] : [eventOf(change, { action: 'store_erased', clientId, user: null }, now)];
  });
  await writeInternalEvents(tx, events, now);
  return declared.map(({ id }) => id);
}
