/**
 * Loads versions of resources that a platform had before it used Halcyon: without events, deliveries and steps. Versions are written in
 * chunks of one transaction each, so that a large load delays no publish of its store, and what is written stays written.
 */
import { setImmediate as pause } from 'node:timers/promises';
import { isInternal, resourceTypes, type ResourceType } from '#catalog/catalog.ts';
import { termOf } from '#catalog/mrr.ts';
import { isObject, type JsonObject } from '#catalog/resource-document.ts';
import { parseExact } from '#core/exact-number.ts';
import { shardOf } from '#core/ids.ts';
import { Problem, type Fault } from '#core/problem.ts';
import { limitWaits, transaction, type Sql, type Tx } from '#db/pool.ts';
import { isLockTimeout } from '#db/unavailable.ts';
import { booksOf, dayOfTerm, toTermColumns, type NewTerm } from '../publish/derive.ts';
import { conflictProblem, isConflict, TRIES_MAX } from '../publish/publish-batch.ts';
import {
  faultsAt,
  readVersion,
  refuseMembers,
  type EventLimits,
  type SentVersion,
} from '../publish/publish-request.ts';
import { lockPreviousVersions, LOCK_MS, upsertTerms } from '../publish/publish-sql.ts';
import { lockedProblem } from '../publish/publish.ts';
import { compare, decisiveDate } from '../publish/rows.ts';
import { derivingStores, lastTerms } from '../publish/subscription-sql.ts';
import { loadVersions, type LoadColumns, type LoadedVersion } from './load-sql.ts';

/** A chunk takes the locks of its resources for some 20 ms. */
const CHUNK_ROWS = 250;
const CHUNK_BYTES = 1024 * 1024;
/** Items that are read before other work of the process goes on: some 2 ms. */
const ITEMS_AT_ONCE = 50;

/** One item of the request. `read` returns its value, or throws a `Problem`. `line`: its position, counted from 1. */
export type LoadItem = { line: number; read: () => unknown };

/** `result`: kept if the stored version is not older. `version`: null unless it was loaded. */
export type LoadResult = {
  line: number;
  result: 'loaded' | 'kept' | 'refused';
  resource: { type: ResourceType; id: string } | null;
  version: number | null;
  errors: readonly Fault[];
  /** What is loaded, and may not be what the platform means. */
  warnings: readonly Fault[];
};

export type LoadRequest = {
  storeId: number;
  items: readonly LoadItem[];
  timeZone: string;
  now: Date;
  /** Returns the results, and writes nothing. */
  isDryRun: boolean;
};

type Deps = { sql: Sql; baseUrl: string; limits: EventLimits };

const MEMBERS: ReadonlySet<string> = new Set(['type', 'resource']);

/** Returns the types of resources that can be loaded. */
export function loadableTypes(): readonly ResourceType[] {
  return resourceTypes().filter((type) => !isInternal(type));
}

function warningsOf(version: SentVersion, resource: JsonObject, timeZone: string): Fault[] {
  const warnings: Fault[] = [];
  const warn = (field: string, code: string, message: string): void =>
    void warnings.push({ code, message: `resource.${field} ${message}`, field: `resource.${field}` });
  if (version.modifiedAt === null)
    warn('date_modified', 'undated', 'is missing: the version is dated now, and no later load replaces it');
  else if (version.isAhead === true)
    warn('date_modified', 'ahead', 'is more than an hour in the future: it is compared with no other date');
  if (version.type !== 'subscription') return warnings;
  const { isActive, monthly, currency } = termOf(resource, timeZone);
  if (isActive && monthly === '0')
    warn('frequency', 'no_revenue', 'or the amount of transaction_template cannot be read: no recurring revenue');
  else if (isActive && currency === 'XXX')
    warn('currency_code', 'no_currency', 'is missing, also in transaction_template: the revenue has no currency');
  return warnings;
}

/** A version to write. `at`: the position of its result. */
type Candidate = { at: number; version: SentVersion };

type Read = { version: SentVersion; warnings: Fault[] } | { faults: readonly Fault[] };

function readItem(item: LoadItem, limits: EventLimits, { timeZone, now }: LoadRequest): Read {
  const faults: Fault[] = [];
  const reported = faultsAt('', faults);
  try {
    const value = item.read();
    if (!isObject(value)) {
      const message = 'The item must be an object with type and resource';
      return { faults: [{ code: 'invalid_value', message }] };
    }
    refuseMembers(value, MEMBERS, 'an item', reported);
    const type = loadableTypes().find((one) => one === value['type']);
    if (type === undefined) reported.fail('type', 'invalid_value', `type must be one of ${loadableTypes().join(', ')}`);
    const version = readVersion(type, value['resource'], { limits, timeZone, now }, reported);
    if (version === undefined || faults.length > 0) return { faults: new Problem(400, faults).faults };
    return { version, warnings: warningsOf(version, value['resource'] as JsonObject, timeZone) };
  } catch (error) {
    if (error instanceof Problem) return { faults: error.faults };
    throw error;
  }
}

const keyOf = ({ type, resourceId }: Pick<SentVersion, 'type' | 'resourceId'>): string => `${type} ${resourceId}`;

/** Returns the version of each resource that is loaded, in lock order: of several ones the newest, as if each was loaded by itself. */
function newestOf(chunk: readonly Candidate[]): Candidate[] {
  const newest = new Map<string, Candidate>();
  for (const candidate of chunk) {
    const key = keyOf(candidate.version);
    const before = newest.get(key);
    const [date, known] = [decisiveDate(candidate.version), before && decisiveDate(before.version)];
    if (before === undefined || (date !== null && known !== null && known !== undefined && date > known))
      newest.set(key, candidate);
  }
  return [...newest.values()].toSorted(
    ({ version: a }, { version: b }) => compare(a.type, b.type) || compare(a.resourceId, b.resourceId),
  );
}

const toColumns = (versions: readonly SentVersion[], now: Date): LoadColumns => ({
  type: versions.map(({ type }) => type),
  resourceId: versions.map(({ resourceId }) => resourceId),
  modifiedAt: versions.map(({ modifiedAt }) => modifiedAt ?? now),
  isDated: versions.map((version) => decisiveDate(version) !== null),
  body: versions.map(({ body }) => body),
});

/**
 * Writes the revenue of loaded subscriptions. That of a new one counts from the last day with a snapshot, so the next snapshot has it as
 * its opening balance, and not as new revenue.
 */
async function writeTerms(
  tx: Tx,
  storeId: number,
  loaded: readonly SentVersion[],
  books: Awaited<ReturnType<typeof booksOf>>,
): Promise<void> {
  const book = books.get(storeId);
  if (book === undefined || loaded.length === 0) return;
  const ids = loaded.map(({ resourceId }) => resourceId);
  const found = await lastTerms(tx, {
    shard: ids.map(() => shardOf(storeId)),
    storeId: ids.map(() => storeId),
    id: ids,
  });
  const lasts = new Map(found.map((last) => [last.id, last]));
  const terms = loaded.flatMap(({ resourceId: subscriptionId, body }): NewTerm[] => {
    const term = termOf(parseExact(body) as JsonObject, book.timeZone);
    const last = lasts.get(subscriptionId);
    const day = last === undefined ? book.openingDay : dayOfTerm(last, term, book);
    return day === undefined ? [] : [{ storeId, subscriptionId, day, term }];
  });
  const columns = toTermColumns(terms);
  if (columns !== null) await upsertTerms(tx, columns);
}

/** Rolls back a dry run, and carries its results out of the transaction. */
class RolledBack extends Error {
  readonly loaded: readonly LoadedVersion[];
  constructor(loaded: readonly LoadedVersion[]) {
    super('A dry run writes nothing');
    this.loaded = loaded;
  }
}

/** Returns the versions that were written. */
async function writeOnce(
  { sql, baseUrl }: Deps,
  versions: readonly SentVersion[],
  { storeId, now, isDryRun }: LoadRequest,
): Promise<readonly LoadedVersion[]> {
  const shard = shardOf(storeId);
  const subscriptions = versions.filter(({ type }) => type === 'subscription');
  const written = transaction(sql, async (tx) => {
    await limitWaits(tx, LOCK_MS);
    await lockPreviousVersions(tx, {
      shard: subscriptions.map(() => shard),
      storeId: subscriptions.map(() => storeId),
      type: subscriptions.map(({ type }) => type),
      id: subscriptions.map(({ resourceId }) => resourceId),
    });
    const stores = { shard: [shard], storeId: [storeId] };
    const books = subscriptions.length === 0 ? new Map<number, never>() : await booksOf(tx, stores, now);
    const loaded = await loadVersions(tx, { shard, storeId }, { columns: toColumns(versions, now), baseUrl });
    const keys = new Set(loaded.map(({ type, id }) => `${type} ${id}`));
    await writeTerms(
      tx,
      storeId,
      subscriptions.filter((one) => keys.has(keyOf(one))),
      books,
    );
    if (isDryRun) throw new RolledBack(loaded);
    return loaded;
  });
  return written.catch((error: unknown) => {
    if (error instanceof RolledBack) return error.loaded;
    throw error;
  });
}

/** Writes the versions again after conflicts with concurrent publishes and erasures. Throws a 503 if they do not end. */
async function write(
  deps: Deps,
  versions: readonly SentVersion[],
  request: LoadRequest,
): Promise<readonly LoadedVersion[]> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await writeOnce(deps, versions, request);
    } catch (error) {
      if (isLockTimeout(error)) throw lockedProblem(error);
      if (!isConflict(error)) throw error;
      if (tries === TRIES_MAX) throw conflictProblem(error);
    }
  }
}

const DERIVED: Fault = {
  code: 'native_event',
  message:
    'type: subscription_event is derived from the versions of a subscription: to load your own, set subscription_events of the store to "published"',
  field: 'type',
};

/**
 * Loads the items, and returns one result for each, in their order. A loaded version replaces the stored one only if both have a date
 * and its own is newer, so a load can be repeated. If it throws, the items before may be loaded.
 */
export async function loadItems(deps: Deps, request: LoadRequest): Promise<LoadResult[]> {
  const { storeId, items } = request;
  const results: LoadResult[] = [];
  const derives = (await derivingStores(deps.sql.reads, { shard: [shardOf(storeId)], storeId: [storeId] })).size > 0;
  let chunk: Candidate[] = [];
  let bytes = 0;
  const flush = async (): Promise<void> => {
    const newest = newestOf(chunk);
    const loaded = await write(
      deps,
      newest.map(({ version }) => version),
      request,
    );
    const versions = new Map(loaded.map(({ type, id, version }) => [`${type} ${id}`, version]));
    for (const { at, version } of newest) {
      const result = results[at];
      const number = versions.get(keyOf(version));
      if (result !== undefined && number !== undefined) results[at] = { ...result, result: 'loaded', version: number };
    }
    [chunk, bytes] = [[], 0];
  };
  for (const [at, item] of items.entries()) {
    if (at % ITEMS_AT_ONCE === ITEMS_AT_ONCE - 1) await pause();
    const read = readItem(item, deps.limits, request);
    const isDerived = 'version' in read && read.version.type === 'subscription_event' && derives;
    const none = { line: item.line, version: null, errors: [], warnings: [] };
    if (!('version' in read) || isDerived) {
      results.push({ ...none, result: 'refused', resource: null, errors: 'faults' in read ? read.faults : [DERIVED] });
      continue;
    }
    const { version, warnings } = read;
    results.push({ ...none, result: 'kept', resource: { type: version.type, id: version.resourceId }, warnings });
    chunk.push({ at, version });
    bytes += Buffer.byteLength(version.body);
    if (chunk.length === CHUNK_ROWS || bytes >= CHUNK_BYTES) await flush();
  }
  if (chunk.length > 0) await flush();
  return results;
}
