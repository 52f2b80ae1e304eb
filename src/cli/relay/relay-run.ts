/**
 * The loop of `halcyon relay`: reads rows, publishes them, and deletes them.
 *
 * ```
 *   read ──► mark ──► publish ──► settle: published → deleted
 *                                         refused   → moved to the table of dead letters
 *                                         other     → stays, and its store waits
 * ```
 *
 * Each step is a transaction of its own, so that none is open while the server works. A row that was marked and not settled is sent again
 * with the same idempotency key. When the server may have forgotten the key, it is refused: only a person can find out whether it is
 * published.
 */
import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '#core/clock.ts';
import { PublishError, type Publisher } from '#publisher';
import { EXIT, UserError } from '../explain.ts';
import { KEY_HOURS, sourceError, type OutboxRow, type Refusal, type Settled, type Source } from './relay-source.ts';

/** How long the loop waits for new rows, and the longer, the longer it searched for them among rows that have to wait. */
const POLL_MS = 250;
const POLL_PER_READ = 10;
const BACKOFF_FIRST_MS = 500;
const BACKOFF_LONGEST_MS = 30_000;
/** The resources of one round. They are one request for each store, because the next one could overtake it. */
const ROUND_BYTES = 2 * 1024 * 1024;
const REASON_CHARACTERS = 2_000;

export type RelayRun = {
  /** Undefined if another relay has the lock. */
  open: () => Promise<Source | undefined>;
  publisher: Pick<Publisher, 'publish'>;
  batch: number;
  /** Ends when no row is left. */
  once: boolean;
  stop: AbortSignal;
  clock: Clock;
  random: () => number;
  warn: (text: string) => void;
  /** Called with a line for each connection to the database. */
  say: (text: string) => void;
};

/** What metrics and results show. `missing`: what has failed last, and does not work yet. */
export type RelayState = {
  published: number;
  refused: number;
  source: Source | undefined;
  missing: Set<'outbox' | 'server'>;
  lastError: Date | undefined;
};

export function createRelayState(): RelayState {
  return { published: 0, refused: 0, source: undefined, missing: new Set(['outbox']), lastError: undefined };
}

/** Returns an exponential backoff with 50 % jitter. */
function backoffMs(tries: number, random: number): number {
  const mostMs = Math.min(BACKOFF_LONGEST_MS, BACKOFF_FIRST_MS * 2 ** tries);
  return mostMs / 2 + (mostMs / 2) * random;
}

const pause = (ms: number, { stop }: RelayRun): Promise<void> => delay(ms, undefined, { signal: stop }).catch(() => {});

/** Stores whose rows wait because the server could not publish one: the rows after it must not overtake it. */
class Pauses {
  readonly #stores = new Map<string, { tries: number; untilMs: number }>();

  get isEmpty(): boolean {
    return this.#stores.size === 0;
  }

  extend(storeId: string, nowMs: number, random: number): void {
    const tries = this.#stores.get(storeId)?.tries ?? 0;
    this.#stores.set(storeId, { tries: tries + 1, untilMs: nowMs + backoffMs(tries, random) });
  }

  end(storeId: string): void {
    this.#stores.delete(storeId);
  }

  at(nowMs: number): string[] {
    return [...this.#stores].flatMap(([storeId, { untilMs }]) => (untilMs > nowMs ? [storeId] : []));
  }
}

// Publishes the rows of a round.

/** `failures`: why a store has to wait. */
type Results = Settled & { failures: Map<string, PublishError> };

/** Returns the event as JSON text, with the numbers of the shop, or why there is none. */
function eventOf({ id, event, resource, sent }: OutboxRow, keyPrefix: string): { text: string } | { fault: string } {
  if (sent === 'expired')
    return {
      fault: `The row was sent first more than ${KEY_HOURS} hours ago, and no response was read: the event may be published, and would now be published twice`,
    };
  if (resource === null) return { fault: 'The column resource is null, or larger than 1 MiB' };
  try {
    JSON.parse(resource);
  } catch (error) {
    return { fault: `The column resource is not JSON (${(error as Error).message})` };
  }
  return { text: `{"event":${JSON.stringify(event)},"resource":${resource},"idempotency_key":"${keyPrefix}${id}"}` };
}

/** Returns whether Halcyon has refused the event, or the store: a response of another server has no faults. */
const isRefusal = ({ code, status, faults }: PublishError): boolean =>
  code === 'refused' ||
  code === 'invalid_event' ||
  (code === 'no_store' && (status === undefined || faults.length > 0));

/** PostgreSQL stores no U+0000. */
const reasonOf = ({ message }: { message: string }): string => message.replaceAll('\0', '').slice(0, REASON_CHARACTERS);

/** Publishes rows, those of a store in one request. The rows of a store are in the order of their ids. */
async function publishRows(rows: readonly OutboxRow[], run: RelayRun, keyPrefix: string): Promise<Results> {
  const published: string[] = [];
  const unsent: string[] = [];
  const refused: Refusal[] = [];
  const failures = new Map<string, PublishError>();
  const publish = async (row: OutboxRow): Promise<void> => {
    const { id, storeId, sent } = row;
    const made = eventOf(row, keyPrefix);
    if ('fault' in made) return void refused.push({ id, reason: reasonOf({ message: made.fault }) });
    try {
      await run.publisher.publish(storeId, made.text);
      published.push(id);
    } catch (error) {
      if (!(error instanceof PublishError)) throw error;
      if (isRefusal(error)) return void refused.push({ id, reason: reasonOf(error) });
      failures.set(storeId, error);
      if (!error.mayBePublished && sent === 'no') unsent.push(id);
    }
    return undefined;
  };
  await Promise.all(rows.map(publish));
  return { published, unsent, refused, failures };
}

/** Returns the first rows, up to the bytes of a round and at least one. */
function firstOf(rows: readonly OutboxRow[]): OutboxRow[] {
  const first: OutboxRow[] = [];
  let bytes = 0;
  for (const row of rows) {
    bytes += Buffer.byteLength(row.resource ?? '');
    if (bytes > ROUND_BYTES && first.length > 0) break;
    first.push(row);
  }
  return first;
}

// The loop.

/** Returns the beginning of the idempotency keys of a table: 12 hexadecimal digits of a hash, because names may be long. */
const keyPrefixOf = ({ name }: Source): string =>
  `relay-${createHash('sha256').update(name).digest('hex').slice(0, 12)}-`;

/** Counts and reports what a round has done. Throws a `UserError` if no later round can succeed. */
function report({ published, refused, failures }: Results, run: RelayRun, state: RelayState, { name }: Source): void {
  state.published += published.length;
  state.refused += refused.length;
  for (const { id, reason } of refused) run.warn(`${name}: row ${id} is refused: ${reason}`);
  const [first] = failures;
  if (first === undefined) {
    state.missing.delete('server');
    return;
  }
  const [storeId, { code, message }] = first;
  if (code === 'unauthorized') throw new UserError(message);
  // After the stop, the publisher was closed before it was done.
  if (run.stop.aborted) return;
  const others = failures.size > 1 ? `, and those of ${failures.size - 1} other stores` : '';
  run.warn(`${name}: the rows of store ${storeId} wait${others}: ${message}`);
  state.lastError = run.clock.now();
  state.missing.add('server');
}

/** Publishes the first rows; returns their number. */
async function runRound(source: Source, run: RelayRun, state: RelayState, pauses: Pauses): Promise<number> {
  const rows = firstOf(await source.read(run.batch, pauses.at(run.clock.monotonicMs())));
  if (rows.length === 0) return 0;
  const unmarked = rows.flatMap(({ id, sent }) => (sent === 'no' ? [id] : []));
  if (unmarked.length > 0) await source.mark(unmarked);
  const results = await publishRows(rows, run, keyPrefixOf(source));
  await source.settle(results);
  for (const { storeId } of rows) {
    if (!results.failures.has(storeId)) pauses.end(storeId);
  }
  for (const storeId of results.failures.keys()) pauses.extend(storeId, run.clock.monotonicMs(), run.random());
  report(results, run, state, source);
  return rows.length;
}

/** Publishes rows until the stop, or with `once` until none is left that can be published. */
async function relayFrom(source: Source, run: RelayRun, state: RelayState, onRound: () => void): Promise<void> {
  const pauses = new Pauses();
  while (!run.stop.aborted) {
    const startedMs = run.clock.monotonicMs();
    const count = await runRound(source, run, state, pauses);
    onRound();
    if (count > 0) continue;
    if (run.once) {
      if (pauses.isEmpty) return;
      throw new UserError('The server does not publish now: rows are left in the table', EXIT.unreachable);
    }
    await pause(Math.max(POLL_MS, POLL_PER_READ * (run.clock.monotonicMs() - startedMs)), run);
  }
}

/** Relays until the stop. Reconnects to the database, and waits while another relay has the lock of the table. */
export async function relay(run: RelayRun, state: RelayState): Promise<void> {
  let [tries, isWaiting] = [0, false];
  while (!run.stop.aborted) {
    try {
      state.source = await run.open();
      if (state.source !== undefined) {
        state.missing.delete('outbox');
        isWaiting = false;
        run.say(`Relaying ${state.source.name}`);
        return await relayFrom(state.source, run, state, () => (tries = 0));
      }
      const LOCKED = 'Another relay publishes this table';
      if (run.once) throw new UserError(LOCKED);
      if (!isWaiting) run.warn(`${LOCKED}: waiting until it ends`);
      isWaiting = true;
    } catch (error) {
      const failure = sourceError(error);
      if (failure === undefined) throw error;
      const message = `The database of the outbox: ${failure.message}`;
      if (!failure.isTemporary || run.once)
        throw new UserError(message, failure.isTemporary ? EXIT.unreachable : EXIT.failed);
      run.warn(`${message}; retrying`);
      state.lastError = run.clock.now();
    } finally {
      const { source } = state;
      state.source = undefined;
      await source?.close();
    }
    state.missing.add('outbox');
    await pause(backoffMs(tries, run.random()), run);
    tries += 1;
  }
}
