/**
 * Notifies open pages that something has happened in their store, by server-sent events (WHATWG HTML). The stream carries no data: a
 * page reads its list again, with the rights and filters that it has.
 */
import { Readable } from 'node:stream';
import type { Sql } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Pages } from '#http/caller.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import type { Clock } from '#core/clock.ts';
import { dayOf } from '#core/ids.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { storeOfAddress } from '#core/principal.ts';
import { notFound, Problem } from '#core/problem.ts';
import { readActivity } from './lists-sql.ts';

const TICK_MS = 1_000;
/** A session that has ended, or a membership, is noticed after at most this number of ticks. */
const CHECKED_TICKS = 5;
/** Proxies close connections without traffic; a comment after this number of ticks is traffic. */
const COMMENT_TICKS = 15;
const STREAMS_MAX = 200;
const STREAMS_PER_STORE_MAX = 20;
const RETRY_AFTER_SECONDS = '5';

type Store = { shard: number; storeId: number };
/** `seen`: the activity of the store (`readActivity` in lists-sql.ts) when the page was rendered, or when it was last notified. */
type Stream = { readable: Readable; isAllowed: () => Promise<boolean>; seen: string };
type OpenStore = Store & { streams: Set<Stream> };

type Deps = { sql: Sql; clock: Clock; log: Log };

const busy = (status: number, code: string, message: string): Problem =>
  new Problem(status, { code, message }, { headers: { 'Retry-After': RETRY_AFTER_SECONDS } });

export class LiveStreams implements Running {
  readonly #deps: Deps;
  readonly #stores = new Map<number, OpenStore>();
  #timer: NodeJS.Timeout | undefined;
  #ticks = 0;
  #isStopped = false;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * Opens a stream of a page that was rendered when the activity of the store was `seen`. It ends when `isAllowed` resolves to false.
   * Throws a 429 or 503 Problem if there are too many.
   */
  open(store: Store, seen: string, isAllowed: () => Promise<boolean>): Readable {
    const open = this.#stores.get(store.storeId) ?? { ...store, streams: new Set() };
    const count = this.#stores.values().reduce((sum, { streams }) => sum + streams.size, 0);
    if (this.#isStopped) throw busy(503, 'unavailable', 'The service is stopping: try again shortly');
    if (count >= STREAMS_MAX) throw busy(503, 'busy', 'Too many pages are live: try again in a few seconds');
    if (open.streams.size >= STREAMS_PER_STORE_MAX)
      throw busy(429, 'too_many_requests', 'Too many pages of this store are live: close one of them first');
    const readable = new Readable({ read: () => {} });
    const stream = { readable, isAllowed, seen };
    open.streams.add(stream);
    this.#stores.set(store.storeId, open);
    readable.once('close', () => this.#end(open, stream));
    readable.push('retry: 5000\n\n');
    this.#timer ??= this.#schedule();
    return readable;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const open of this.#stores.values()) for (const stream of open.streams) this.#end(open, stream);
  }

  /** Ends a stream, or notes that it was closed; nothing is written to it from now on. */
  #end(open: OpenStore, stream: Stream): void {
    if (!open.streams.delete(stream)) return;
    stream.readable.push(null);
    if (open.streams.size === 0) this.#stores.delete(open.storeId);
    if (this.#stores.size > 0) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** The next tick begins after the last one has ended, so that a slow database gets no more statements. */
  #schedule(): NodeJS.Timeout {
    const timer = setTimeout(() => {
      void this.#tick().then(() => {
        // The last stream was closed meanwhile, and another one may have scheduled a tick.
        if (this.#timer === timer) this.#timer = this.#stores.size > 0 ? this.#schedule() : undefined;
      });
    }, TICK_MS);
    return timer;
  }

  async #tick(): Promise<void> {
    this.#ticks += 1;
    const isChecking = this.#ticks % CHECKED_TICKS === 0;
    const isCommenting = this.#ticks % COMMENT_TICKS === 0;
    // One after another: all pages together take one connection of the pool.
    for (const open of this.#stores.values()) {
      try {
        if (isChecking) await this.#endForbidden(open);
        await this.#update(open, isCommenting);
      } catch (error) {
        if (isUnavailable(error)) return;
        this.#deps.log.error({ err: error, store: open.storeId }, 'live pages could not be updated');
      }
    }
  }

  async #update(open: OpenStore, isCommenting: boolean): Promise<void> {
    const { sql, clock } = this.#deps;
    const activity = await readActivity(sql, open, dayOf(clock.now()));
    for (const stream of open.streams) {
      if (activity !== stream.seen) stream.readable.push('data: changed\n\n');
      else if (isCommenting) stream.readable.push(':\n\n');
      stream.seen = activity;
    }
  }

  async #endForbidden(open: OpenStore): Promise<void> {
    for (const stream of open.streams) if (!(await stream.isAllowed())) this.#end(open, stream);
  }
}

/** Returns the handler of the stream of a store, for people who are signed in and have access to it. */
export function createLive(
  streams: Pick<LiveStreams, 'open'>,
  { visitorOf, clock }: Pick<Pages, 'visitorOf'> & { clock: Clock },
): RawHandler {
  const storeOf = async ({ cookies, params }: RawRequest): Promise<Store | undefined> => {
    // Without an address: an open stream does not keep the session alive.
    const visitor = await visitorOf({ cookies, now: clock.now() });
    return visitor === null || visitor.enrolAt(undefined) !== undefined
      ? undefined
      : storeOfAddress({ params, principal: visitor.principal });
  };
  const isAllowed = (request: RawRequest) => async (): Promise<boolean> => {
    try {
      return (await storeOf(request)) !== undefined;
    } catch (error) {
      if (error instanceof Problem) return false;
      throw error;
    }
  };
  return async (request) => {
    const store = await storeOf(request);
    if (store === undefined) throw notFound('store');
    return {
      status: 200,
      headers: { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' },
      body: request.method === 'HEAD' ? '' : streams.open(store, request.query.get('seen') ?? '', isAllowed(request)),
    };
  };
}
