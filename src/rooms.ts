/** The composition root of what answers requests: which room gets what from which. */
import { createHmac } from 'node:crypto';
import { createAccounts } from '#accounts/accounts.ts';
import { originOf } from '#accounts/audit/audit.ts';
import { createPasswords } from '#accounts/passwords.ts';
import { createSessions } from '#accounts/sessions.ts';
import { createSignedIn } from '#accounts/signed-in.ts';
import { createThrottle } from '#accounts/throttle/throttle.ts';
import { createPages } from '#accounts/visitor.ts';
import { collections } from '#commerce/catalogue.ts';
import { createCommerceOperations } from '#commerce/item.ts';
import type { Sql } from '#database/pool.ts';
import type { Sealer } from '#database/seal.ts';
import { createSearch, type Search } from '#database/search.ts';
import type { createAnnouncer } from '#delivery/announce.ts';
import type { createGuard } from '#delivery/exchange/guard.ts';
import type { Worker } from '#delivery/worker.ts';
import { followZone } from '#events/daily/zone.ts';
import { createErasure } from '#events/erasure/operation.ts';
import { createEventOperations } from '#events/operations.ts';
import type { Pages } from '#http/caller.ts';
import { createHealthDoors } from '#http/health.ts';
import { createOnce } from '#http/idempotency/once.ts';
import type { Health } from '#kernel/health.ts';
import type { Log } from '#kernel/log.ts';
import type { Mailer } from '#mail/mail.ts';
import { appSections, createApps } from '#oauth/apps.ts';
import { createAuthorize } from '#oauth/authorize/authorize.ts';
import type { Bearer } from '#oauth/bearer.ts';
import { createClientAuthentication } from '#oauth/client-auth.ts';
import { revokeGrantsForStore, revokeGrantsOf } from '#oauth/connected/connected.ts';
import { eraseAppsOf } from '#oauth/erasure/erase.ts';
import { createIntrospect } from '#oauth/introspect.ts';
import { createMetadata } from '#oauth/metadata.ts';
import { createRevoke } from '#oauth/revocation/revoke.ts';
import { createTokenEndpoint } from '#oauth/token.ts';
import { createHome } from '#stores/home.ts';
import { createMemberOperations } from '#stores/members/operations.ts';
import { createStoreOperations } from '#stores/operations.ts';
import { membershipsOf } from '#stores/store.ts';
import { createWebhookOperations } from '#webhooks/collection.ts';
import { createEventStatuses } from '#webhooks/history/of-event/statuses.ts';
import { createWebhooksOfStore } from '#webhooks/of-store/of-store.ts';
import { openReference } from './chapters.ts';
import type { Config } from './config.ts';
import { holdersOf, type Publishing } from './publishing.ts';
import { routesOf, type Rooms } from './routes.ts';

export type RoomsDeps = {
  config: Config;
  sql: Sql;
  /** 32 bytes: other keys are derived from it, one for each purpose. */
  secretKey: Buffer;
  log: Log;
  health: Health;
  /** Undefined where the operator has set up no mail. */
  mailer: Mailer | undefined;
  sealer: Sealer;
  guard: ReturnType<typeof createGuard>;
  worker: Worker | undefined;
  announcer: ReturnType<typeof createAnnouncer>;
  bearer: Bearer;
  publishing: Publishing;
};

const openEvents = (deps: RoomsDeps, { search, fingerprintKey }: { search: Search; fingerprintKey: Buffer }) =>
  createEventOperations({
    sql: deps.sql,
    publish: deps.publishing.publish,
    baseUrl: deps.config.baseUrl,
    relationPrefix: deps.config.naming.relationPrefix,
    limits: deps.config.events,
    fingerprintKey,
    bodyLimitBytes: deps.config.http.eventsBodyLimitBytes,
    search,
  });

/** Stores know nothing of what hangs on them: how it follows them is said here. */
const openStores = (deps: RoomsDeps, search: Search) => {
  const { config, sql, sealer, guard, worker, announcer, publishing } = deps;
  const { changelog } = publishing;
  const { baseUrl, naming, webhooks } = config;
  const onChanged = async ({ shard, id }: { shard: number; id: number }) => {
    worker?.webhookChanged({ shard, webhookId: id });
    await announcer.webhook({ shard, webhookId: id });
  };
  const webhooksOfStore = createWebhooksOfStore({ sql, onChanged });
  return {
    stores: createStoreOperations({
      sql,
      changelog,
      baseUrl,
      collections,
      onMoved: webhooksOfStore.renew,
      followZone,
      eraseTheirs: [
        webhooksOfStore.erase,
        async (tx, { storeId }, request) => {
          await revokeGrantsForStore(tx, { storeId, origin: originOf(request), now: request.now });
          return undefined;
        },
      ],
    }),
    members: createMemberOperations({ sql, changelog, baseUrl }),
    webhooks: createWebhookOperations({
      sql,
      changelog,
      search,
      sealer,
      baseUrl,
      versions: webhooks.versions,
      webhooksPerStore: webhooks.webhooksPerStore,
      headerPrefix: naming.webhookHeaderPrefix,
      judgeUrl: guard.judgeUrl,
      onChanged,
    }),
  };
};

/** What answers requests, and what the machinery before it needs of the rooms. */
export const createRooms = (deps: RoomsDeps): { rooms: Rooms; pages: Pages; once: ReturnType<typeof createOnce> } => {
  const { config, sql, secretKey, log, bearer, mailer, sealer } = deps;
  const { changelog } = deps.publishing;
  const { baseUrl, authUrl, naming, oauth, accounts } = config;
  const derive = (purpose: string) => createHmac('sha256', secretKey).update(purpose).digest();
  const passwords = createPasswords({ hashesAtOnce: accounts.passwordHashesAtOnce });
  const sessions = createSessions({ sql, authUrl, lifetimeDays: accounts.sessionLifetimeDays });
  const signedIn = createSignedIn({ sessions, authUrl, nonceKey: derive('form nonce') });
  const throttle = createThrottle({ sql });
  const authenticate = createClientAuthentication({ throttle });
  const pages = createPages({
    sessions,
    nonce: signedIn.nonce,
    membershipsOf: (userId) => membershipsOf(sql, userId),
    authUrl,
  });
  const search = createSearch(sql, config.database);
  const once = createOnce({ sql, sealer, fingerprintKey: derive('idempotency fingerprint') });
  const rooms: Rooms = {
    home: createHome({ baseUrl, authUrl }),
    ...openStores(deps, search),
    events: openEvents(deps, { search, fingerprintKey: derive('publish fingerprint') }),
    eventStatuses: createEventStatuses({ search, baseUrl }),
    erasure: createErasure({ sql, baseUrl, holders: holdersOf(deps.worker) }),
    commerce: createCommerceOperations({ sql, search, baseUrl, relationPrefix: naming.relationPrefix }),
    ...createAccounts({
      sql,
      changelog,
      log,
      mailer,
      passwords,
      sessions,
      signedIn,
      throttle,
      baseUrl,
      authUrl,
      sections: appSections({ sql }),
      endGrants: (tx, whose) => revokeGrantsOf(tx, changelog, whose),
      eraseTheirs: eraseAppsOf(changelog),
      deviceKey: derive('device cookie'),
      passwordResetMinutes: accounts.passwordResetMinutes,
    }),
    authorize: createAuthorize({
      sql,
      changelog,
      sessions,
      issuer: authUrl,
      codeLifetimeSeconds: oauth.codeLifetimeSeconds,
      nonceKey: derive('authorize nonce'),
    }),
    token: createTokenEndpoint({
      sql,
      changelog,
      authenticate,
      lifetimes: oauth,
      rotation: {
        successorKey: derive('refresh token successor'),
        rotatedTokenKeptDays: config.housekeeping.rotatedTokenKeptDays,
      },
    }),
    revoke: createRevoke({ sql, changelog, authenticate }),
    introspect: createIntrospect({ sql, authenticate, bearer, issuer: authUrl }),
    ...createApps({ ...oauth, sql, changelog, sessions, signedIn, throttle, bearer, baseUrl, authUrl }),
    metadata: createMetadata({ baseUrl, authUrl }),
    health: createHealthDoors(deps.health),
    reference: openReference(config, () => routesOf(rooms, config)),
  };
  return { rooms, pages, once };
};
