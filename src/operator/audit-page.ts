/** The audit of operators: who did what to a store, an app or a person, when and why. */
import { findUserByEmail } from '#identity/accounts/accounts-sql.ts';
import { describeAction, type Action } from '#identity/accounts/audit.ts';
import { findClient } from '#identity/oauth/clients/clients-sql.ts';
import { readEmail } from '#core/email.ts';
import { parseId, shardOf } from '#core/ids.ts';
import type { Sql } from '#db/pool.ts';
import type { Search as SearchWithin } from '#db/search.ts';
import { htmlAnswer } from '#http/answers.ts';
import type { RawRequest, RawResponse } from '#http/route.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { briefDateOf } from '#hypermedia/shown-date.ts';
import { countActs, listActs, type ActRow, type Concerned } from './audit-sql.ts';
import { appLink, cardOf, cellDate, listPage, personLink, storeLink, tableOf } from './console-pages.ts';
import {
  filtersOf,
  idOf,
  readSearch,
  type List,
  type ConsoleSearch,
  STORE_CHANGES_MAX,
  type ReadStoreChanges,
} from './console-reads.ts';

const AUDIT: List = {
  path: 'audit',
  title: 'Audit',
  things: 'entries',
  by: ['store_id', 'client_id', 'email'],
  headings: ['When', 'Who', 'What', 'Reason'],
};

/** Returns what a search names; undefined if there is no such app or person. A person who was erased is found by the id. */
async function concernedBy(sql: Sql, { by, text }: ConsoleSearch): Promise<Concerned | undefined> {
  const all: Concerned = { storeId: null, client: null, userId: null };
  if (text === '') return all;
  if (by === 'store_id') return { ...all, storeId: idOf(text) };
  if (by === 'client_id') {
    const client = await findClient(sql, text);
    return client && { ...all, client: client.id };
  }
  const userId = parseId(text) ?? (await findUserByEmail(sql, readEmail(text) ?? text))?.id;
  return userId === undefined ? undefined : { ...all, userId };
}

/** What an operator, a command or a program did, before the name of what it was done to. */
const ACTS: Readonly<Partial<Record<Action, string>>> = {
  client_created: 'Created the app',
  client_changed: 'Changed the app',
  client_secret_rotated: 'Rotated the secret of the app',
  client_deleted: 'Deleted the app',
  client_suspended: 'Suspended the app',
  client_resumed: 'Ended the suspension of the app',
  store_suspended: 'Suspended the store',
  store_resumed: 'Ended the suspension of the store',
  user_created: 'Created the account of',
  user_disabled: 'Suspended',
  user_enabled: 'Ended the suspension of',
  user_erased: 'Erased the account of',
  email_changed: 'Changed the e-mail address of',
  second_factors_removed: 'Removed all second factors of',
  operator_added: 'Gave the role of operator to',
  operator_removed: 'Took the role of operator from',
};

function whoOf(root: string, { operatorId, operator, program }: ActRow): Markup {
  if (operatorId !== null && operator !== null) return personLink(root, { id: operatorId, email: operator });
  return html`${program ?? (operatorId === null ? 'Command line' : `Former operator ${operatorId}`)}`;
}

function objectOf(root: string, { action, clientId, app, storeId, store, userId, email }: ActRow): Markup | false {
  // What is gone has no page.
  if (/_(?:deleted|erased)$/.test(action)) return html`${app ?? store ?? email ?? clientId ?? storeId ?? userId ?? ''}`;
  if (action.startsWith('client_')) return clientId !== null && appLink(root, { clientId, name: app ?? clientId });
  if (storeId !== null) return storeLink(root, { id: storeId, name: store ?? String(storeId) });
  return userId !== null && personLink(root, { id: userId, email: email ?? `person ${userId}` });
}

/** Renders the cells of an act. */
function actCells(root: string, row: ActRow): readonly Markup[] {
  const { action, dateCreated, reason } = row;
  const words: Readonly<Record<string, string>> = ACTS;
  return [
    cellDate(dateCreated),
    whoOf(root, row),
    html`${words[action] ?? describeAction(action)} ${objectOf(root, row)}`,
    html`${reason ?? '–'}`,
  ];
}

const CHANGES_HEADING = 'Changes by the platform and by commands';

/** Renders the latest changes of a store that members did not make. */
function changesTable(changes: Awaited<ReturnType<ReadStoreChanges>>): Markup {
  if (changes.length === 0) return html`<p>The platform and commands have changed nothing in this store.</p>`;
  return html`${tableOf(
    CHANGES_HEADING,
    ['When', 'What'],
    changes.map(({ date, sentence }) => [html`${briefDateOf(date)}`, html`${sentence}`]),
  )}
  ${
    changes.length === STORE_CHANGES_MAX &&
    html`<p class="soft">The latest ${STORE_CHANGES_MAX}. The changelog of the store has them all.</p>`
  }`;
}

/** Returns the handler of the audit, which only an operator may get (`console.ts`). */
export function createAudit({
  sql,
  root,
  search,
  storeChangesOf,
}: {
  sql: Sql;
  root: string;
  search: SearchWithin;
  storeChangesOf: ReadStoreChanges;
}): (request: RawRequest) => Promise<RawResponse> {
  const read = async (concerned: Concerned | undefined, asked: ConsoleSearch) =>
    concerned === undefined
      ? { rows: [], total: 0 }
      : search(0, { ...asked.page, order: [], filters: filtersOf(asked) }, async (tx) => ({
          rows: (await listActs(tx, concerned, asked.page)).map((row) => actCells(root, row)),
          total: await countActs(tx, concerned),
        }));
  const changesCard = (storeId: number): Promise<Markup> =>
    cardOf(CHANGES_HEADING, async () => changesTable(await storeChangesOf({ shard: shardOf(storeId), storeId })));
  return async (request) => {
    const asked = readSearch(request, AUDIT.by);
    const concerned = await concernedBy(sql, asked);
    const found = await read(concerned, asked);
    const storeId = concerned?.storeId ?? null;
    const changes = storeId === null ? undefined : await changesCard(storeId);
    return htmlAnswer(200, listPage(root, AUDIT, { search: asked, ...found }, changes));
  };
}
