/**
 * The pages of operators, below /operator: the state of the service, what fails now in all stores, a search for stores, apps and people,
 * their suspension, and the audit. The role is given on the command line alone, and counts only in a session whose person has proved a
 * second factor. An operator sees no content of a store and no secret, and cannot act as another person.
 */
import { confirmationAt, enrolmentForRole } from '#identity/accounts/signed-in.ts';
import { recordAuditEntry } from '#identity/accounts/audit.ts';
import { findCredentials } from '#identity/accounts/accounts-sql.ts';
import { setPersonSuspension } from '#identity/accounts/user-end.ts';
import type { People } from '#identity/accounts/people.ts';
import type { Session } from '#identity/accounts/sessions.ts';
import { countUsers, findUser, listUsers } from '#identity/accounts/users-sql.ts';
import { countClients, listClients } from '#identity/oauth/clients/client-lists-sql.ts';
import { setSuspension } from '#identity/oauth/clients/client-change.ts';
import { findClient, type Client } from '#identity/oauth/clients/clients-sql.ts';
import type { RevocationEffects } from '#identity/oauth/grants.ts';
import type { Clock } from '#core/clock.ts';
import { shardOf } from '#core/ids.ts';
import type { Listing } from '#core/listing.ts';
import { notFound, temporary, REASON_LENGTH_MAX } from '#core/problem.ts';
import { OPERATOR } from '#changelog/changelog.ts';
import { listProcesses } from '#db/activity.ts';
import { transaction, type Queryable, type Sql } from '#db/pool.ts';
import { createSearch } from '#db/search.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import { idIn, type RawHandler, type RawRequest, type RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { liveAttribute, scriptElements } from '#hypermedia/shell.ts';
import { createCachedRead } from '#metrics/metrics-server.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { countStores, findStore, listStores, updateSuspension } from '#stores/stores-sql.ts';
import type { ReadFailing } from '#webhooks/health/health-operations.ts';
import { isLonger, isName } from '#core/text.ts';
import { readersOf, readTarget, type Reader } from '#webhooks/readers.ts';
import { createAudit } from './audit-page.ts';
import {
  appFacts,
  appLink,
  auditLink,
  cardOf,
  cellDate,
  consolePage,
  factsCard,
  failingTable,
  listPage,
  personFacts,
  personLink,
  readersPage,
  storeFacts,
  statusCards,
  storeLink,
  suspensionCard,
  type EFFECTS,
} from './console-pages.ts';
import { filtersOf, readSearch, type List, type ReadStatuses, type ReadStoreChanges } from './console-reads.ts';

/** Webhooks on the first page. */
const SHOWN_MAX = 20;
/** Webhooks on the page of the readers of a type. */
const READERS_MAX = 200;

type Handle = (request: RawRequest, session: Session) => Promise<RawResponse>;

/** Throws a 404 for a person without the role, so that nothing says which addresses there are. */
function requireRole({ isOperator }: Session): void {
  if (!isOperator) throw notFound('page');
}

/** Returns where an operator goes first who has no second factor, or has not proved it in this session. */
function factorStep(root: string, { hasFactor, provedFactor }: Session, path: string): RawResponse | undefined {
  if (!hasFactor) return redirectAnswer(enrolmentForRole(root));
  return provedFactor ? undefined : redirectAnswer(confirmationAt(root, path));
}

type Source = List & {
  read: (tx: Queryable, listing: Listing) => Promise<{ total: number; rows: (readonly Markup[])[] }>;
};

const storesOf = (root: string): Source => ({
  path: 'stores',
  title: 'Stores',
  things: 'stores',
  by: ['name', 'domain', 'id'],
  headings: ['Name', 'Domain', 'ID', 'Created'],
  read: async (tx, listing) => {
    const shown = { reach: null, reader: null };
    const stores = await listStores(tx, shown, listing);
    const rows = stores.map((store) => [
      storeLink(root, store),
      html`${store.domain}`,
      html`${store.id}`,
      cellDate(store.dateCreated),
    ]);
    return { rows, total: await countStores(tx, shown, listing) };
  },
});

const ALL_CLIENTS = { owner: null, ids: undefined, reader: null };

const appsOf = (root: string): Source => ({
  path: 'apps',
  title: 'Apps',
  things: 'apps',
  by: ['name', 'client_id', 'contact'],
  headings: ['Name', 'Client ID', 'Contact', 'Created'],
  read: async (tx, listing) => {
    const clients = await listClients(tx, ALL_CLIENTS, listing);
    const rows = clients.map((client) => [
      appLink(root, client),
      html`<code>${client.clientId}</code>`,
      html`${client.contact}`,
      cellDate(client.dateCreated),
    ]);
    return { rows, total: await countClients(tx, ALL_CLIENTS, listing) };
  },
});

const peopleOf = (root: string): Source => ({
  path: 'people',
  title: 'People',
  things: 'people',
  by: ['email', 'id'],
  headings: ['E-mail', 'ID', 'Created'],
  read: async (tx, listing) => {
    const shown = { ids: undefined, reader: null };
    const people = await listUsers(tx, shown, listing);
    const rows = people.map((person) => [personLink(root, person), html`${person.id}`, cellDate(person.dateCreated)]);
    return { rows, total: await countUsers(tx, shown, listing) };
  },
});

type Effects = Pick<RevocationEffects, 'accessChanged' | 'changelog' | 'lockAppsOf'>;

/**
 * Suspends a store for a reason, which ends the access of its members and apps with this commit in every process and disables its webhooks, or
 * ends the suspension (null). Does nothing if that is done already, or the store no longer exists.
 */
function setStoreSuspension(
  sql: Sql,
  { accessChanged, changelog, lockAppsOf }: Effects,
  storeId: number,
  { reason, operatorId, now }: Suspension,
): Promise<void> {
  return transaction(sql, async (tx) => {
    await lockAppsOf(tx, storeId);
    const suspended = await updateSuspension(tx, { shard: shardOf(storeId), storeId }, reason);
    if (suspended === undefined) return;
    const { name: store, before } = suspended;
    await accessChanged(tx, { storeId }, now);
    const [was, is] = [{ suspended_reason: before }, { suspended_reason: reason }];
    const change = {
      actor: OPERATOR,
      resource: 'store',
      resourceId: storeId,
      action: 'changed',
      before: was,
      after: is,
    } as const;
    await changelog.record(tx, [{ ...change, storeId }], now);
    const action = reason === null ? 'store_resumed' : 'store_suspended';
    const detail = { store, operator: String(operatorId), ...(reason !== null && { reason }) };
    await recordAuditEntry(tx, { action, userId: null, storeId, origin: null, detail, now });
  });
}

/** Creates the pages of what an operator may suspend. `failingCard` renders what fails in a store. */
function suspendable(
  { sql }: Pick<Runtime, 'sql'>,
  verified: People['verified'],
  {
    root,
    effects,
    failingOf,
    failingCard,
  }: {
    root: string;
    effects: Effects;
    failingOf: ReadFailing;
    failingCard: FailingCard;
  },
) {
  const store = suspensionPages(verified, root, {
    what: 'store',
    find: async (request) => {
      const storeId = idIn(request, 'store_id', 'store');
      const key = { shard: shardOf(storeId), storeId };
      const found = await findStore(sql, key);
      if (found === undefined) return undefined;
      const content = async () =>
        html`${factsCard(storeFacts(found), auditLink(root, 'store_id', found.id))}
        ${await failingCard('Webhooks', () => failingOf(request.now, key))}`;
      return { id: String(storeId), name: found.name, reason: found.suspendedReason, content };
    },
    set: (id, suspension) => setStoreSuspension(sql, effects, Number(id), suspension),
  });
  const app = suspensionPages(verified, root, {
    what: 'app',
    find: async ({ params: { client_id: clientId = '' } }) => {
      const client = await findClient(sql, clientId);
      return (
        client && {
          id: clientId,
          name: client.name,
          reason: client.suspendedReason,
          content: () => factsCard(appFacts(client), auditLink(root, 'client_id', clientId)),
        }
      );
    },
    set: (clientId, suspension) => setSuspension(sql, effects, clientId, suspension),
  });
  const person = suspensionPages(verified, root, {
    what: 'person',
    find: async (request) => {
      const userId = idIn(request, 'user_id', 'person');
      const [user, credentials] = [await findUser(sql, userId), await findCredentials(sql, userId)];
      if (user === undefined || credentials === undefined) return undefined;
      const { isDisabled, disabledReason } = credentials;
      const reason = isDisabled ? (disabledReason ?? 'Disabled on the command line') : null;
      return {
        id: String(userId),
        name: user.email,
        reason,
        content: () => factsCard(personFacts(user), auditLink(root, 'email', userId)),
      };
    },
    set: (id, suspension) => setPersonSuspension(sql, effects.accessChanged, Number(id), suspension),
  });
  return { store, app, person };
}

type FailingCard = (heading: string, read: () => ReturnType<ReadFailing>) => Promise<Markup>;

function createFailingCard({ sql, root }: { sql: Sql; root: string }): FailingCard {
  /** Returns the apps of webhooks by their internal ids. */
  const appsById = async (clients: readonly (number | null)[]): Promise<ReadonlyMap<number | null, Client>> => {
    const ids = [...new Set(clients)].filter((id) => id !== null);
    const listing = { offset: 0, limit: ids.length, order: [], filters: [] };
    const rows = ids.length === 0 ? [] : await listClients(sql, { ...ALL_CLIENTS, ids }, listing);
    return new Map(rows.map((row) => [row.id, row]));
  };
  return (heading, read) =>
    cardOf(heading, async () => {
      const failing = await read();
      if (failing.length === 0) return html`<p>No webhook fails.</p>`;
      const apps = await appsById(failing.map(({ client }) => client));
      return failingTable(root, heading, { failing, apps });
    });
}

/** `failingOf`: in all databases, without those that are not available; of one store in its own. */
type Reads = {
  each: () => Iterable<Queryable>;
  failingOf: ReadFailing;
  storeChangesOf: ReadStoreChanges;
  readStatuses: ReadStatuses;
};

/** Seconds after which the first page is read again. */
const LIVE_SECONDS = 10;

/** Returns a read of what fails most in all databases. Each open page asks for it every few seconds. Throws a 503 if it takes longer. */
function createFailingNow(failingOf: ReadFailing, clock: Clock): () => ReturnType<ReadFailing> {
  const read = createCachedRead(() => failingOf(clock.now()), clock);
  return async () => {
    const failing = await read();
    const message = 'It is being counted: read this page again in a moment';
    if (failing === undefined) throw temporary(503, { code: 'unavailable', message }, LIVE_SECONDS);
    return failing.slice(0, SHOWN_MAX);
  };
}

/** Returns the first webhooks that read what the text names, or what is wrong with it. */
async function findReaders(databases: Iterable<Queryable>, text: string) {
  const target = readTarget(text);
  if (typeof target === 'string') return target;
  const readers: Reader[] = [];
  for await (const reader of readersOf(databases, target)) {
    if (readers.length === READERS_MAX) return { readers, isComplete: false };
    readers.push(reader);
  }
  return { readers, isComplete: true };
}

export function createConsole(
  { sql, config, clock }: Pick<Runtime, 'sql' | 'config' | 'clock'>,
  { verified }: Pick<People, 'verified'>,
  { effects, each, failingOf, storeChangesOf, readStatuses }: Reads & { effects: Effects },
) {
  const root = rootOf(config.authUrl);
  const search = createSearch(sql, config.database);
  const page = (handle: Handle): RawHandler =>
    verified.page(async (request, session) => {
      requireRole(session);
      return factorStep(root, session, request.path) ?? handle(request, session);
    });
  const list = (source: Source): RawHandler =>
    page(async (request) => {
      const asked = readSearch(request, source.by);
      const filters = filtersOf(asked);
      const found = await search(0, { ...asked.page, order: [], filters }, (tx) =>
        source.read(tx, { ...asked.page, order: [], filters }),
      );
      return htmlAnswer(200, listPage(root, source, { search: asked, ...found }));
    });
  const failingCard = createFailingCard({ sql, root });
  const failingNow = createFailingNow(failingOf, clock);
  const audit = createAudit({ sql, root, search, storeChangesOf });
  const scripts = scriptElements((path) => `${rootOf(config.baseUrl)}${path}`);
  const { store, app, person } = suspendable({ sql }, verified, { root, effects, failingOf, failingCard });
  return {
    overview: page(async () => {
      const [found, processes, failing] = await Promise.all([
        readStatuses(),
        listProcesses(sql),
        failingCard('What fails now', failingNow),
      ]);
      const cards = statusCards(found, processes);
      const content = html`<div ${liveAttribute(LIVE_SECONDS)}>${cards.databases} ${failing} ${cards.processes}</div>
        <p><a href="${root}/operator/events">Which webhooks read an event?</a></p>`;
      return htmlAnswer(200, consolePage(root, 'Service', content, scripts), { hasScripts: true });
    }),
    stores: list(storesOf(root)),
    store: page(store.show),
    actOnStore: page(store.submit),
    apps: list(appsOf(root)),
    app: page(app.show),
    actOnApp: page(app.submit),
    people: list(peopleOf(root)),
    person: page(person.show),
    actOnPerson: page(person.submit),
    readers: page(async ({ query }) => {
      const text = query.get('q')?.trim() ?? '';
      return htmlAnswer(200, readersPage(root, text, text === '' ? undefined : await findReaders(each(), text)));
    }),
    audit: page(audit),
  } satisfies Record<string, RawHandler>;
}

/** The reason is null for the end of a suspension. */
type Suspension = { reason: string | null; operatorId: number; now: Date };

/** `reason`: why it is suspended; null if it is not. `content` renders what its page says of it. */
type Suspendable = { id: string; name: string; reason: string | null; content: () => Markup | Promise<Markup> };

const actOf = (form: URLSearchParams) => (form.get('act') === 'resume' ? 'resume' : 'suspend');

/** Returns the reason; undefined if it is empty, or has more than one line. */
function readReason(form: URLSearchParams): string | undefined {
  const reason = form.get('reason')?.trim() ?? '';
  return isName(reason) && !isLonger(reason, REASON_LENGTH_MAX) ? reason : undefined;
}

const NO_REASON = `The reason must be one line with letters, of at most ${REASON_LENGTH_MAX} characters`;

/** Creates both handlers, which only an operator may get (`console.ts`). The nonce is bound to the act and to what it changes. */
function suspensionPages(
  verified: People['verified'],
  root: string,
  deps: {
    what: keyof typeof EFFECTS;
    find: (request: RawRequest) => Promise<Suspendable | undefined>;
    set: (id: string, suspension: Suspension) => Promise<void>;
  },
) {
  const { what, find, set } = deps;
  const found = async (request: RawRequest): Promise<Suspendable> => {
    const one = await find(request);
    if (one === undefined) throw notFound(what);
    return one;
  };
  const show = async (request: RawRequest, session: Session, fault?: string): Promise<RawResponse> => {
    const { name, reason, content } = await found(request);
    const bound = [reason === null ? 'suspend' : 'resume', request.path];
    const card = suspensionCard({ at: request.path, what, name, reason, nonce: verified.nonce(session, bound), fault });
    return htmlAnswer(fault === undefined ? 200 : 422, consolePage(root, name, html`${await content()} ${card}`));
  };
  const submit = verified.sensitiveForm(
    ({ path, form }) => [actOf(form), path],
    async (request, session) => {
      const { id } = await found(request);
      const reason = actOf(request.form) === 'resume' ? null : readReason(request.form);
      if (reason === undefined) return show(request, session, NO_REASON);
      await set(id, { reason, operatorId: session.userId, now: request.now });
      return redirectAnswer(request.path);
    },
  );
  return { show, submit };
}
