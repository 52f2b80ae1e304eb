/**
 * What the pages of operators read: lists that are searched by one property at a time, the state of the service in each database, and what
 * the platform and commands have changed in a store.
 */
import { parseId, type StoreKey } from '#core/ids.ts';
import type { Condition, Filter } from '#core/listing.ts';
import { invalidValue, invalid, type Fault } from '#core/problem.ts';
import { isLegible } from '#core/text.ts';
import type { RawRequest } from '#http/route.ts';
import { readPage, type Page } from '#hypermedia/paging.ts';
import { readVolume, type Volume } from '#db/activity.ts';
import { readFreeSpace } from '#db/data-folder.ts';
import type { Sql } from '#db/pool.ts';
import { readBacklog, type Backlog } from '#delivery/queue/queue-sql.ts';
import { createCachedRead } from '#metrics/metrics-server.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { listResources } from '#catalog/catalog-sql.ts';
import { parseEntry, textOfEntry } from '#dashboard/changelog-page.ts';
import { findNames } from '#dashboard/names-sql.ts';
import type { Search } from '#db/search.ts';

/** A list of the console that is searched by one property at a time. */
export type List = { path: string; title: string; things: string; by: readonly string[]; headings: readonly string[] };

/** Throws a 400 for a text that is no id. */
export function idOf(text: string): number {
  const id = parseId(text);
  if (id === undefined) throw invalid(invalidValue('q', 'An ID is a positive number'));
  return id;
}

export type ConsoleSearch = { by: string; text: string; page: Page };

/** Properties that are compared exactly; of others the value contains the text. */
const EXACT: ReadonlySet<string> = new Set(['id', 'client_id']);

function conditionOf({ by, text }: ConsoleSearch): Condition {
  if (!EXACT.has(by))
    return { property: by, operator: 'like', value: `*${text.replaceAll(/[*\\]/g, String.raw`\$&`)}*` };
  return { property: by, operator: 'is', value: by === 'id' ? idOf(text) : text };
}

/** Returns the filters of a search, none for the whole list. Throws a 400 for a text that is no id. */
export function filtersOf(search: ConsoleSearch): Condition[] {
  return search.text === '' ? [] : [conditionOf(search)];
}

/** Returns the search of a request: by the first property if it names none. Throws a 400 for a faulty parameter. */
export function readSearch({ query }: RawRequest, by: readonly string[]): ConsoleSearch {
  const faults: Fault[] = [];
  const page = readPage(query, faults);
  const text = query.get('q')?.trim() ?? '';
  if (!isLegible(text)) faults.push(invalidValue('q', 'q must have no control characters'));
  if (faults.length > 0) throw invalid(...faults);
  const [first = ''] = by;
  return { by: by.find((name) => name === query.get('by')) ?? first, text, page };
}

/** `published`: events, `ended`: deliveries; averages since the previous read, `seconds` ago. */
type Rates = { published: number; ended: number; seconds: number };

/** `rates`: undefined at the first read. `freeBytes`: undefined of an external server, whose disk cannot be read. */
type DatabaseStatus = Pick<Volume, 'sizeBytes'> & {
  rates: Rates | undefined;
  backlog: Backlog;
  freeBytes: number | undefined;
};

/** Reads the state of all databases, the home database first; undefined of one that does not respond. */
export type ReadStatuses = () => Promise<{ name: string; status: DatabaseStatus | undefined }[]>;

type Sample = Volume & { atMs: number };

/** Webhooks whose earliest delivery is read; `doctor` reads more. */
const WEBHOOKS_PER_SHARD = 20;

/** Returns undefined also if the statistics of the server were reset, or a day's table was dropped, between both samples. */
function ratesOf(before: Sample | undefined, after: Sample): Rates | undefined {
  if (before === undefined || after.published < before.published || after.ended < before.ended) return undefined;
  const seconds = (after.atMs - before.atMs) / 1_000;
  return {
    published: (after.published - before.published) / seconds,
    ended: (after.ended - before.ended) / seconds,
    seconds,
  };
}

/**
 * Returns a read of the state of a database, at most one every 5 s; its result is undefined if the database does not respond within a second.
 * The counters of the metrics are those of one process: PostgreSQL counts for all. `dataDir`: the folder of an embedded database.
 */
export function createDatabaseStatus(
  { sql, clock }: Pick<Runtime, 'sql' | 'clock'>,
  dataDir: string | undefined,
): () => Promise<DatabaseStatus | undefined> {
  let last: Sample | undefined;
  return createCachedRead(async () => {
    const volume = await readVolume(sql);
    const sample = { ...volume, atMs: clock.monotonicMs() };
    const rates = ratesOf(last, sample);
    last = sample;
    const backlog = await readBacklog(sql, clock.now(), WEBHOOKS_PER_SHARD);
    const space = dataDir === undefined ? undefined : await readFreeSpace(dataDir);
    return { rates, backlog, sizeBytes: volume.sizeBytes, freeBytes: space?.freeBytes };
  }, clock);
}

/** `date`: in the time zone of the store. */
type StoreChange = { date: string; sentence: string };

/** Returns the latest changes of a store, at most `STORE_CHANGES_MAX`, the newest first. Throws the errors of `Search`. */
export type ReadStoreChanges = (store: StoreKey) => Promise<StoreChange[]>;

export const STORE_CHANGES_MAX = 50;
const BY_OPERATORS: Filter = {
  property: 'actor',
  operator: 'in',
  value: ['platform', 'operator'].map((value) => ({ property: 'actor', operator: 'is', value })),
};
/** The audit has suspensions with the operator who acted, and a member may get a link at each visit. */
const WITHOUT: readonly Filter[] = [
  ...['before', 'after'].map(
    (when) => ({ property: `/${when}/suspended_reason`, operator: 'is', value: null }) as const,
  ),
  { property: 'action', operator: 'not', value: 'link_created' },
];

/** `sql`: the database of the store; `accounts`: the home database. */
export function createStoreChanges({
  sql,
  accounts,
  search,
}: {
  sql: Sql;
  accounts: Sql;
  search: Search;
}): ReadStoreChanges {
  const listing = { offset: 0, limit: STORE_CHANGES_MAX, order: [], filters: [BY_OPERATORS, ...WITHOUT] };
  return async (store) => {
    const found = await search(store.storeId, listing, (tx) =>
      listResources(tx, { ...store, type: 'changelog' }, listing),
    );
    const rows = found !== undefined && 'rows' in found ? found.rows : [];
    const entries = rows.flatMap(({ body }) => parseEntry(body) ?? []);
    const names = await findNames({ sql, accounts }, store, {
      webhookIds: entries.flatMap(({ resource, resource_id: id }) => (resource === 'webhook' ? [Number(id)] : [])),
      clientIds: [],
    });
    return entries.map((entry) => ({ date: entry.date_created, sentence: textOfEntry(entry, names) }));
  };
}
