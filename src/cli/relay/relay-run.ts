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
import { KEY_HOURS, sourceError, type OutboxRow, type Settled, type Source, WAITING_ROWS_MAX } from './relay-source.ts';
import { Registry } from '@prometheus-io/client';
import { createHealth, type Running } from '#core/lifecycle.ts';
import { createCachedRead, scrapeCounter, scrapeGauge, serveMetrics } from '#metrics/metrics-server.ts';

/** How long the loop waits for new rows, and the longer, the longer it searched for them among rows that have to wait. */
const POLL_MS = 250;
const POLL_PER_READ = 10;
const BACKOFF_FIRST_MS = 500;
const BACKOFF_LONGEST_MS = 30_000;
const REASON_CHARACTERS = 2_000;

type RelayOptions = {
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

// A row.

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
const reasonOf = (message: string): string => message.replaceAll('\0', '').slice(0, REASON_CHARACTERS);

// The loop.

/** Returns the beginning of the idempotency keys of a table: 12 hexadecimal digits of a hash, because names may be long. */
const keyPrefixOf = ({ name }: Source): string =>
  `relay-${createHash('sha256').update(name).digest('hex').slice(0, 12)}-`;

/** Returns an exponential backoff with 50 % jitter. */
function backoffMs(tries: number, random: number): number {
  const mostMs = Math.min(BACKOFF_LONGEST_MS, BACKOFF_FIRST_MS * 2 ** tries);
  return mostMs / 2 + (mostMs / 2) * random;
}

export class Relay {
  published = 0;
  refused = 0;
  source: Source | undefined;
  /** What has failed last, and does not work yet. */
  readonly missing = new Set<'outbox' | 'server'>(['outbox']);
  lastError: Date | undefined;
  readonly #options: RelayOptions;
  /** Stores whose rows wait because the server could not publish one: the rows after it must not overtake it. */
  readonly #pauses = new Map<string, { tries: number; untilMs: number }>();

  constructor(options: RelayOptions) {
    this.#options = options;
  }

  /** Relays until the stop. Reconnects to the database, and waits while another relay has the lock of the table. */
  async run(): Promise<void> {
    const { open, once, stop, random, warn, say } = this.#options;
    let [tries, isWaiting] = [0, false];
    while (!stop.aborted) {
      try {
        this.source = await open();
        if (this.source !== undefined) {
          this.missing.delete('outbox');
          isWaiting = false;
          say(`Relaying ${this.source.name}`);
          return await this.#relayFrom(this.source, () => (tries = 0));
        }
        const LOCKED = 'Another relay publishes this table';
        if (once) throw new UserError(LOCKED);
        if (!isWaiting) warn(`${LOCKED}: waiting until it ends`);
        isWaiting = true;
      } catch (error) {
        const failure = sourceError(error);
        if (failure === undefined) throw error;
        const message = `The database of the outbox: ${failure.message}`;
        if (!failure.isTemporary || once)
          throw new UserError(message, failure.isTemporary ? EXIT.unreachable : EXIT.failed);
        warn(`${message}; retrying`);
        this.lastError = this.#options.clock.now();
      } finally {
        const { source } = this;
        this.source = undefined;
        await source?.close();
      }
      this.missing.add('outbox');
      await this.#pause(backoffMs(tries, random()));
      tries += 1;
    }
  }

  #pause(ms: number): Promise<void> {
    return delay(ms, undefined, { signal: this.#options.stop }).catch(() => {});
  }

  /** Publishes rows until the stop, or with `once` until none is left that can be published. */
  async #relayFrom(source: Source, onRound: () => void): Promise<void> {
    const { once, stop, clock } = this.#options;
    this.#pauses.clear();
    while (!stop.aborted) {
      const startedMs = clock.monotonicMs();
      const count = await this.#runRound(source);
      onRound();
      if (count > 0) continue;
      if (once) {
        if (this.#pauses.size === 0) return;
        throw new UserError('The server does not publish now: rows are left in the table', EXIT.unreachable);
      }
      await this.#pause(Math.max(POLL_MS, POLL_PER_READ * (clock.monotonicMs() - startedMs)));
    }
  }

  /** Publishes the first rows; returns their number. */
  async #runRound(source: Source): Promise<number> {
    const { batch, clock, random } = this.#options;
    const nowMs = clock.monotonicMs();
    const exceptStores = [...this.#pauses].flatMap(([storeId, { untilMs }]) => (untilMs > nowMs ? [storeId] : []));
    const rows = await source.read(batch, exceptStores);
    if (rows.length === 0) return 0;
    const unmarked = rows.flatMap(({ id, sent }) => (sent === 'no' ? [id] : []));
    if (unmarked.length > 0) await source.mark(unmarked);
    const { failures, ...settled } = await this.#publish(rows, keyPrefixOf(source));
    await source.settle(settled);
    for (const { storeId } of rows) if (!failures.has(storeId)) this.#pauses.delete(storeId);
    for (const storeId of failures.keys()) {
      const tries = this.#pauses.get(storeId)?.tries ?? 0;
      this.#pauses.set(storeId, { tries: tries + 1, untilMs: clock.monotonicMs() + backoffMs(tries, random()) });
    }
    this.#report(source.name, settled, failures);
    return rows.length;
  }

  /**
   * Publishes rows, those of a store in one request, and returns why stores have to wait. The rows of a store are in the order of their
   * ids.
   */
  async #publish(rows: readonly OutboxRow[], keyPrefix: string) {
    const settled = {
      published: [] as string[],
      refused: [] as { id: string; reason: string }[],
      unsent: [] as string[],
    };
    const failures = new Map<string, PublishError>();
    const publish = async (row: OutboxRow): Promise<void> => {
      const { id, storeId, sent } = row;
      const refuse = (reason: string): void => void settled.refused.push({ id, reason: reasonOf(reason) });
      const made = eventOf(row, keyPrefix);
      if ('fault' in made) return refuse(made.fault);
      try {
        await this.#options.publisher.publish(storeId, made.text);
        settled.published.push(id);
      } catch (error) {
        if (!(error instanceof PublishError)) throw error;
        if (isRefusal(error)) return refuse(error.message);
        failures.set(storeId, error);
        if (!error.mayBePublished && sent === 'no') settled.unsent.push(id);
      }
      return undefined;
    };
    await Promise.all(rows.map(publish));
    return { ...settled, failures };
  }

  /** Counts and reports what a round has done. Throws a `UserError` if no later round can succeed. */
  #report(name: string, { published, refused }: Settled, failures: ReadonlyMap<string, PublishError>): void {
    const { warn, stop, clock } = this.#options;
    this.published += published.length;
    this.refused += refused.length;
    for (const { id, reason } of refused) warn(`${name}: row ${id} is refused: ${reason}`);
    const [first] = failures;
    if (first === undefined) return void this.missing.delete('server');
    const [storeId, { code, message }] = first;
    if (code === 'unauthorized') throw new UserError(message);
    // After the stop, the publisher was closed before it was done.
    if (stop.aborted) return undefined;
    const others = failures.size > 1 ? `, and those of ${failures.size - 1} other stores` : '';
    warn(`${name}: the rows of store ${storeId} wait${others}: ${message}`);
    this.lastError = clock.now();
    this.missing.add('server');
    return undefined;
  }
}

// The metrics and the readiness.

/** Starts the listener. The relay is ready if it has the lock of the table, and the server has published the last rows. */
export async function serveRelayMetrics(
  relay: Relay,
  { host, port, clock }: { host: string; port: number; clock: Clock },
): Promise<Running> {
  const registry = new Registry();
  const gauge = (name: string, help: string, read: () => number | undefined | Promise<number | undefined>) =>
    scrapeGauge(registry, { name, help }, read);
  const lag = createCachedRead(async () => relay.source?.lag(), clock);
  gauge(
    'halcyon_relay_rows_waiting',
    `Rows in the outbox table, of which ${WAITING_ROWS_MAX} are counted`,
    async () => (await lag())?.rows,
  );
  gauge('halcyon_relay_oldest_row_seconds', 'Age of the oldest row', async () => (await lag())?.oldestSeconds);
  gauge(
    'halcyon_relay_last_error_timestamp_seconds',
    'When the database or the server was last unavailable',
    () => relay.lastError && relay.lastError.getTime() / 1000,
  );
  const counter = (name: string, help: string, read: () => number) => scrapeCounter(registry, { name, help }, read);
  counter('halcyon_relay_published_total', 'Rows that were published and deleted', () => relay.published);
  counter('halcyon_relay_refused_total', 'Rows that were moved to the table of dead letters', () => relay.refused);
  const health = createHealth(
    (['outbox', 'server'] as const).map((part) => () => (relay.missing.has(part) ? part : undefined)),
  );
  health.started();
  return serveMetrics({ registry, health, host, port });
}
