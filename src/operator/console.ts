/**
 * The pages of operators, below /operator: what fails now in all stores, a search for stores, apps and people, and their suspension. The role
 * is given on the command line alone, and counts only in a session whose person has proved a second factor. An operator sees no content of
 * a store and no secret, and cannot act as another person.
 */
import { confirmationAt } from '#identity/accounts/factors/step-up.ts';
import { recordAuditEntry } from '#identity/accounts/audit.ts';
import { findCredentials } from '#identity/accounts/accounts-sql.ts';
import { setPersonSuspension } from '#identity/accounts/disabling.ts';
import type { People } from '#identity/accounts/people.ts';
import type { Session } from '#identity/accounts/sessions.ts';
import { enrolmentForRole } from '#identity/accounts/signed-in.ts';
import { countUsers, findUser, listUsers } from '#identity/accounts/users-sql.ts';
import { countClients, listClients } from '#identity/oauth/clients/client-lists-sql.ts';
import { isClientId } from '#identity/oauth/clients/clients.ts';
import { setSuspension } from '#identity/oauth/clients/client-change.ts';
import { findClient, type Client } from '#identity/oauth/clients/clients-sql.ts';
import type { RevocationEffects } from '#identity/oauth/grants.ts';
import { parseId, shardOf } from '#core/ids.ts';
import type { Condition, Listing } from '#core/listing.ts';
import { invalid, notFound, Problem, type Fault } from '#core/problem.ts';
import { isLegible } from '#core/text.ts';
import { transaction, type Queryable, type Sql } from '#db/pool.ts';
import { createSearch } from '#db/search.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import { idIn, type RawHandler, type RawRequest, type RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { readPage } from '#hypermedia/paging.ts';
import { shownDate } from '#hypermedia/shown-date.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { countStores, findStore, listStores, updateSuspension } from '#stores/stores-sql.ts';
import type { ReadFailing } from '#webhooks/health/failing.ts';
import {
  appFacts,
  appLink,
  consolePage,
  factsCard,
  failingTable,
  listPage,
  personFacts,
  personLink,
  storeFacts,
  storeLink,
  type List,
  type Search,
} from './console-pages.ts';
import { suspensionPages, type Suspension } from './suspend-form.ts';

/** Webhooks on the first page. */
const SHOWN_MAX = 20;

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

/** Properties that are compared exactly; of others the value contains the text. */
const EXACT: ReadonlySet<string> = new Set(['id', 'client_id']);

function conditionOf({ by, text }: Search): Condition {
  if (!EXACT.has(by))
    return { property: by, operator: 'like', value: `*${text.replaceAll(/[*\\]/g, String.raw`\$&`)}*` };
  const value = by === 'id' ? parseId(text) : text;
  if (value === undefined) throw invalid({ code: 'invalid_value', message: 'An id is a positive number', field: 'q' });
  return { property: by, operator: 'is', value };
}

function readSearch({ query }: RawRequest, by: readonly string[]): Search {
  const faults: Fault[] = [];
  const page = readPage(query, faults);
  const text = query.get('q')?.trim() ?? '';
  if (!isLegible(text))
    faults.push({ code: 'invalid_value', message: 'q must have no control characters', field: 'q' });
  if (faults.length > 0) throw invalid(...faults);
  const [first = ''] = by;
  return { by: by.find((name) => name === query.get('by')) ?? first, text, page };
}

type Source = List & {
  read: (tx: Queryable, listing: Listing) => Promise<{ total: number; rows: (readonly Markup[])[] }>;
};

const storesOf = (root: string): Source => ({
  path: 'stores',
  title: 'Stores',
  by: ['name', 'domain', 'id'],
  headings: ['Name', 'Domain', 'Id', 'Created'],
  read: async (tx, listing) => {
    const shown = { reach: null, reader: null };
    const stores = await listStores(tx, shown, listing);
    const rows = stores.map((store) => [
      storeLink(root, store),
      html`${store.domain}`,
      html`${store.id}`,
      shownDate(store.dateCreated),
    ]);
    return { rows, total: await countStores(tx, shown, listing) };
  },
});

const ALL_CLIENTS = { owner: null, ids: undefined, reader: null };

const appsOf = (root: string): Source => ({
  path: 'apps',
  title: 'Apps',
  by: ['name', 'client_id', 'contact'],
  headings: ['Name', 'Client ID', 'Contact', 'Created'],
  read: async (tx, listing) => {
    const clients = await listClients(tx, ALL_CLIENTS, listing);
    const rows = clients.map((client) => [
      appLink(root, client),
      html`<code>${client.clientId}</code>`,
      html`${client.contact}`,
      shownDate(client.dateCreated),
    ]);
    return { rows, total: await countClients(tx, ALL_CLIENTS, listing) };
  },
});

const peopleOf = (root: string): Source => ({
  path: 'people',
  title: 'People',
  by: ['email', 'id'],
  headings: ['E-mail', 'Id', 'Created'],
  read: async (tx, listing) => {
    const shown = { ids: undefined, reader: null };
    const people = await listUsers(tx, shown, listing);
    const rows = people.map((person) => [personLink(root, person), html`${person.id}`, shownDate(person.dateCreated)]);
    return { rows, total: await countUsers(tx, shown, listing) };
  },
});

type Effects = Pick<RevocationEffects, 'accessChanged'>;

/**
 * Suspends a store for a reason, which ends the access of its members and apps with this commit in every process and disables its webhooks, or
 * ends the suspension (null). Does nothing if that is done already, or the store no longer exists.
 */
function setStoreSuspension(
  sql: Sql,
  { accessChanged }: Effects,
  storeId: number,
  { reason, operatorId, now }: Suspension,
): Promise<void> {
  return transaction(sql, async (tx) => {
    const store = await updateSuspension(tx, { shard: shardOf(storeId), storeId }, reason);
    if (store === undefined) return;
    await accessChanged(tx, { storeId }, now);
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
    failingCard,
  }: { root: string; effects: Effects; failingCard: (...of: Parameters<ReadFailing>) => Promise<Markup> },
) {
  const store = suspensionPages(verified, root, {
    what: 'store',
    find: async (request) => {
      const storeId = idIn(request, 'store_id', 'store');
      const key = { shard: shardOf(storeId), storeId };
      const found = await findStore(sql, key);
      if (found === undefined) return undefined;
      const content = async () => html`${factsCard(storeFacts(found))} ${await failingCard(request.now, key)}`;
      return { id: String(storeId), name: found.name, reason: found.suspendedReason, content };
    },
    set: (id, suspension) => setStoreSuspension(sql, effects, Number(id), suspension),
  });
  const app = suspensionPages(verified, root, {
    what: 'app',
    find: async ({ params: { client_id: clientId = '' } }) => {
      const client = isClientId(clientId) ? await findClient(sql, clientId) : undefined;
      return (
        client && {
          id: clientId,
          name: client.name,
          reason: client.suspendedReason,
          content: () => factsCard(appFacts(client)),
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
      return { id: String(userId), name: user.email, reason, content: () => factsCard(personFacts(user)) };
    },
    set: (id, suspension) => setPersonSuspension(sql, effects.accessChanged, Number(id), suspension),
  });
  return { store, app, person };
}

/** `failingOf`: in all databases, without those that are not available; of one store in its own. */
export function createConsole(
  { sql, config }: Pick<Runtime, 'sql' | 'config'>,
  { verified }: Pick<People, 'verified'>,
  { failingOf, effects }: { failingOf: ReadFailing; effects: Effects },
): Record<
  'overview' | 'stores' | 'store' | 'actOnStore' | 'apps' | 'app' | 'actOnApp' | 'people' | 'person' | 'actOnPerson',
  RawHandler
> {
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
      const filters = asked.text === '' ? [] : [conditionOf(asked)];
      const found = await search(0, { ...asked.page, order: [], filters }, (tx) =>
        source.read(tx, { ...asked.page, order: [], filters }),
      );
      return htmlAnswer(200, listPage(root, source, { search: asked, ...found }));
    });
  /** Returns the apps of webhooks by their internal ids. */
  const appsById = async (clients: readonly (number | null)[]): Promise<ReadonlyMap<number | null, Client>> => {
    const ids = [...new Set(clients)].filter((id) => id !== null);
    const listing = { offset: 0, limit: ids.length, order: [], filters: [] };
    const rows = ids.length === 0 ? [] : await listClients(sql, { ...ALL_CLIENTS, ids }, listing);
    return new Map(rows.map((row) => [row.id, row]));
  };
  /** Renders what fails; a sentence if it cannot be read in time, because the search for the reason goes on on the other pages. */
  const failingCard = async (...of: Parameters<ReadFailing>): Promise<Markup> => {
    try {
      const failing = (await failingOf(...of)).slice(0, of[1] === undefined ? SHOWN_MAX : undefined);
      if (failing.length === 0) return html`<div class="card"><p>No webhook fails.</p></div>`;
      const apps = await appsById(failing.map(({ client }) => client));
      return html`<div class="card">${failingTable(root, 'Webhooks', { failing, apps })}</div>`;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      return html`<div class="card"><p class="alert" role="alert">${error.message}.</p></div>`;
    }
  };
  const { store, app, person } = suspendable({ sql }, verified, { root, effects, failingCard });
  return {
    overview: page(async ({ now }) => htmlAnswer(200, consolePage(root, 'What fails now', await failingCard(now)))),
    stores: list(storesOf(root)),
    store: page(store.show),
    actOnStore: page(store.submit),
    apps: list(appsOf(root)),
    app: page(app.show),
    actOnApp: page(app.submit),
    people: list(peopleOf(root)),
    person: page(person.show),
    actOnPerson: page(person.submit),
  };
}
