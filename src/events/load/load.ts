/**
 * Loads versions of resources that a platform had before it used Halcyon: without events, deliveries and steps. Versions are written in
 * chunks of one transaction each: a publish of the store waits for one of them at most, and what is written stays written.
 */
import { setImmediate as pause, setTimeout as wait } from 'node:timers/promises';
import { canBeDeleted, isInternal, mapped, resourceTypes, type ResourceType } from '#catalog/catalog.ts';
import { timeZonesOf } from '#catalog/catalog-sql.ts';
import { termOf } from '#catalog/mrr.ts';
import { isObject, type JsonObject } from '#catalog/resource-document.ts';
import { parseExact } from '#core/exact-number.ts';
import { shardOf } from '#core/ids.ts';
import { notFound, Problem, type Fault } from '#core/problem.ts';
import { limitWaits, transaction, type Sql, type Tx } from '#db/pool.ts';
import { isLockTimeout } from '#db/unavailable.ts';
import { booksOf, dayOfTerm } from '../publish/derive.ts';
import { conflictProblem, isConflict, TRIES_MAX } from '../publish/publish-batch.ts';
import {
  faultsAt,
  readVersion,
  refuseMembers,
  warningsOf,
  type EventLimits,
  type SentVersion,
} from '../publish/publish-request.ts';
import { lockPreviousVersions, LOCK_MS, upsertTerms, type NewTerm } from '../publish/publish-sql.ts';
import { lockedProblem } from '../publish/publish.ts';
import { compare, decisiveDate } from '../publish/rows.ts';
import { derivingStores, lastTerms, type Book } from '../revenue-sql.ts';
import { loadVersions, type LoadedVersion } from './load-sql.ts';

/** On two cores a chunk keeps one of them for 2 ms: a live delivery passes eight processes, and waits for a core at each. */
const CHUNK_ROWS = 10;
const CHUNK_BYTES = 128 * 1024;
/**
 * How many times as long as a chunk took the database then rests. On two cores 2,000 versions a second are loaded, and 95 % of live
 * deliveries take 7.0 to 7.4 ms instead of 5.6. With chunks of 100 rows: 3,600 a second and 8.1 to 10 ms; with these and five times the
 * rest, 1,800 and 8.4; with chunks of 7, 1,800 and 6.8. A commit that does not wait for the disk, and fewer items at once, change nothing.
 */
const RESTS = 1;
/** Items, and UTF-16 code units of lines, that are read before other work of the process goes on: some 2 ms. */
const ITEMS_AT_ONCE = 10;
const SIZE_AT_ONCE = 32 * 1024;

/**
 * One item of the request. `read` returns its value, or throws a `Problem`. `line`: its position, counted from 1. `size`: the UTF-16 code
 * units that `read` parses.
 */
export type LoadItem = { line: number; size: number; read: () => unknown };

/**
 * `result`: kept if it was not stored, because it does not replace the stored version, or another version of the request is newer.
 * `version`: null unless it was loaded.
 */
export type LoadResult = {
  line: number;
  result: 'loaded' | 'kept' | 'refused';
  resource: { type: ResourceType; id: string } | null;
  version: number | null;
  errors: readonly Fault[];
  /** What was loaded, and may not be what the platform means. */
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

const DELETED_BEFORE: Fault = {
  code: 'deleted',
  message: 'resource is marked as deleted: only resources that exist are loaded',
  field: 'resource',
};

const UNDATED: Fault = {
  code: 'undated',
  message: 'resource.date_modified is missing: the version is dated now, and no later load replaces it',
  field: 'resource.date_modified',
};

type Read = { version: SentVersion; warnings: Fault[] } | { faults: readonly Fault[] };

function readItem(
  item: LoadItem,
  types: readonly ResourceType[],
  limits: EventLimits,
  { timeZone, now }: LoadRequest,
): Read {
  const faults: Fault[] = [];
  const reported = faultsAt('', faults);
  try {
    const value = item.read();
    if (!isObject(value)) {
      const message = 'The item must be an object with type and resource';
      return { faults: [{ code: 'invalid_value', message }] };
    }
    refuseMembers(value, MEMBERS, 'an item', reported);
    const type = types.find((one) => one === value['type']);
    if (type === undefined) reported.fail('type', 'invalid_value', `type must be one of ${types.join(', ')}`);
    const read = readVersion(type, value['resource'], { limits, timeZone, now }, reported);
    if (read === undefined || faults.length > 0) return { faults: new Problem(400, faults).faults };
    const { version, seen } = read;
    if (seen.isDeleted && canBeDeleted(version.type)) return { faults: [DELETED_BEFORE] };
    const warnings = warningsOf(read);
    return { version, warnings: version.modifiedAt === null ? [UNDATED, ...warnings] : warnings };
  } catch (error) {
    if (error instanceof Problem) return { faults: error.faults };
    throw error;
  }
}

const keyOf = ({ type, resourceId }: { type: string; resourceId: string }): string => `${type} ${resourceId}`;

const isStep = ({ type }: SentVersion): boolean => type === 'subscription_event';

/**
 * Writes the revenue of loaded subscriptions. The first term of a subscription is of the day before that of the next snapshot, so that the
 * snapshot has it in its balance, and not as new revenue; so is that of a version that replaces one of the same load. `wasLoaded`: the
 * subscriptions whose stored versions were loaded.
 */
async function writeTerms(
  tx: Tx,
  loaded: readonly SentVersion[],
  { book, wasLoaded }: { book: Book | undefined; wasLoaded: ReadonlySet<string> },
): Promise<void> {
  if (book === undefined || loaded.length === 0) return;
  const { storeId } = book;
  const keys = loaded.map(({ resourceId: id }) => ({ storeId, id }));
  const lasts = new Map((await lastTerms(tx, keys)).map((last) => [last.id, last]));
  const terms = loaded.flatMap(({ resourceId: subscriptionId, body }): NewTerm[] => {
    const { resource } = mapped('subscription', parseExact(body) as JsonObject);
    const term = termOf(resource, book.timeZone);
    const last = lasts.get(subscriptionId);
    const isOpening = last === undefined || (wasLoaded.has(subscriptionId) && last.day === book.openingDay);
    const day = isOpening ? book.openingDay : dayOfTerm(last, term, book);
    return day === undefined ? [] : [{ storeId, subscriptionId, day, term }];
  });
  if (terms.length > 0) await upsertTerms(tx, terms);
}

/** `refusesSteps`: Halcyon derives the steps of this store, and those of the platform were not written. */
type Written = { loaded: readonly LoadedVersion[]; refusesSteps: boolean };

/** Rolls back a dry run; the cause is what would be written. */
class RolledBack extends Error {}

async function writeOnce(
  { sql, baseUrl }: Deps,
  sent: readonly SentVersion[],
  { storeId, now, isDryRun }: LoadRequest,
): Promise<Written> {
  const shard = shardOf(storeId);
  const result = transaction(sql, async (tx) => {
    await limitWaits(tx, LOCK_MS);
    const refusesSteps = sent.some(isStep) && (await derivingStores(tx, [storeId])).has(storeId);
    const versions = refusesSteps ? sent.filter((one) => !isStep(one)) : sent;
    const subscriptions = versions.filter(({ type }) => type === 'subscription');
    // In the order of a publish: versions, then the book.
    const keys = subscriptions.map(({ type, resourceId: id }) => ({ storeId, type, id }));
    const hasTerms = subscriptions.length > 0;
    const before = hasTerms ? await lockPreviousVersions(tx, keys) : [];
    const books = hasTerms ? await booksOf(tx, [storeId], now) : undefined;
    const loaded = await loadVersions(tx, { shard, storeId }, versions, { now, baseUrl });
    const written = new Set(loaded.map(keyOf));
    await writeTerms(
      tx,
      subscriptions.filter((one) => written.has(keyOf(one))),
      {
        book: books?.get(storeId),
        wasLoaded: new Set(before.flatMap(({ id, isLoaded }) => (isLoaded === true ? [id] : []))),
      },
    );
    if (isDryRun) throw new RolledBack('A dry run writes nothing', { cause: { loaded, refusesSteps } });
    return { loaded, refusesSteps };
  });
  return result.catch((error: unknown) => {
    if (error instanceof RolledBack) return error.cause as Written;
    throw error;
  });
}

/** Writes the versions again after conflicts with concurrent publishes and erasures. Throws a 503 if they do not end. */
async function write(deps: Deps, versions: readonly SentVersion[], request: LoadRequest): Promise<Written> {
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

/** A version to write. `at`: the position of its result. */
type Candidate = { at: number; version: SentVersion; warnings: Fault[] };

/** The versions of one transaction, each resource once. */
class Chunk {
  readonly #candidates = new Map<string, Candidate>();
  #bytes = 0;

  get isFull(): boolean {
    return this.#candidates.size >= CHUNK_ROWS || this.#bytes >= CHUNK_BYTES;
  }

  /** Adds a version unless an earlier one of its resource is newer. Returns false if the stored version decides which of the two is loaded. */
  add(candidate: Candidate): boolean {
    const key = keyOf(candidate.version);
    const before = this.#candidates.get(key);
    const date = decisiveDate(candidate.version);
    const known = before && decisiveDate(before.version);
    if (before !== undefined && known === null && date !== null) return false;
    const isNewer = before === undefined || (date !== null && known !== null && known !== undefined && date > known);
    if (isNewer) {
      this.#candidates.set(key, candidate);
      this.#bytes += Buffer.byteLength(candidate.version.body);
    }
    return true;
  }

  /** Removes all, and returns them in the order in which a publish locks them. */
  take(): Candidate[] {
    const all = [...this.#candidates.values()].toSorted(
      ({ version: a }, { version: b }) => compare(a.type, b.type) || compare(a.resourceId, b.resourceId),
    );
    this.#candidates.clear();
    this.#bytes = 0;
    return all;
  }
}

/**
 * Loads the items as if each was loaded by itself, and returns one result for each, in their order. A loaded version replaces the stored
 * one only if both have a date and its own is newer, so a load can be repeated. Throws a 404 if the store is erased meanwhile. If it
 * throws, the items before may be loaded.
 */
export async function loadItems(deps: Deps, request: LoadRequest): Promise<LoadResult[]> {
  const { items } = request;
  const types = loadableTypes();
  const results: LoadResult[] = [];
  const chunk = new Chunk();
  const flush = async (): Promise<void> => {
    const candidates = chunk.take();
    if (candidates.length === 0) return;
    const versions = candidates.map(({ version }) => version);
    const startedMs = performance.now();
    const { loaded, refusesSteps } = await write(deps, versions, request);
    await wait(RESTS * (performance.now() - startedMs));
    const numbers = new Map(loaded.map((one) => [keyOf(one), one.version]));
    for (const { at, version, warnings } of candidates) {
      const result = results[at];
      const number = numbers.get(keyOf(version));
      if (result === undefined) continue;
      if (number !== undefined) results[at] = { ...result, result: 'loaded', version: number, warnings };
      else if (refusesSteps && isStep(version)) results[at] = { ...result, result: 'refused', errors: [DERIVED] };
    }
  };
  let size = 0;
  for (const [at, item] of items.entries()) {
    size += item.size;
    if (at % ITEMS_AT_ONCE === ITEMS_AT_ONCE - 1 || size >= SIZE_AT_ONCE) {
      size = 0;
      await pause();
    }
    const read = readItem(item, types, deps.limits, request);
    const none = { line: item.line, version: null, errors: [], warnings: [] };
    if (!('version' in read)) {
      results.push({ ...none, result: 'refused', resource: null, errors: read.faults });
      continue;
    }
    const { version } = read;
    results.push({ ...none, result: 'kept', resource: { type: version.type, id: version.resourceId } });
    const candidate = { at, ...read };
    if (!chunk.add(candidate)) {
      await flush();
      chunk.add(candidate);
    }
    if (chunk.isFull) await flush();
  }
  await flush();
  const isErased = !(await timeZonesOf(deps.sql.reads, [request.storeId])).has(request.storeId);
  if (isErased) throw notFound('store');
  return results;
}
