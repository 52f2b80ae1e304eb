/**
 * Notifies open pages that something has happened in their store, by server-sent events (WHATWG HTML). The stream carries no data: a
 * page reads its list again, with the rights and filters that it has.
 */
import type { Readable } from 'node:stream';
import type { Sql } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Pages } from '#http/caller.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import type { Clock } from '#core/clock.ts';
import { EventStreams, type EventStream, type FindEndReason, type StreamSettings } from '#core/event-stream.ts';
import { dayOf, type StoreKey } from '#core/ids.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { storeOfAddress } from '#core/principal.ts';
import { notFound, Problem } from '#core/problem.ts';
import { readActivity } from './lists-sql.ts';

/** `seen`: the activity of the store (`readActivity` in lists-sql.ts) when the page was rendered, or when it was last notified. */
type Page = { stream: EventStream; seen: string };
type OpenStore = StoreKey & { pages: Set<Page> };

type Deps = { sql: Sql; clock: Clock; log: Log };
/** `pollMs`: the pause between two reads of the activities. */
type LiveSettings = StreamSettings & { pollMs: number };

export class LiveStreams implements Running {
  readonly #deps: Deps;
  readonly #pollMs: number;
  readonly #streams: EventStreams;
  readonly #stores = new Map<number, OpenStore>();
  #timer: NodeJS.Timeout | undefined;

  constructor(deps: Deps, settings: LiveSettings) {
    this.#deps = deps;
    this.#pollMs = settings.pollMs;
    this.#streams = new EventStreams('live pages', settings, deps.log);
  }

  /**
   * Opens a stream of a page that was rendered when the activity of the store was `seen`. Throws a 429 or 503 Problem if there are too
   * many.
   */
  open(store: StoreKey, seen: string, findEndReason: FindEndReason): Readable {
    const stream = this.#streams.open(store.storeId, findEndReason);
    const open = this.#stores.getOrInsertComputed(store.storeId, () => ({ ...store, pages: new Set() }));
    const page = { stream, seen };
    open.pages.add(page);
    void stream.closed.then(() => {
      open.pages.delete(page);
      if (open.pages.size === 0) this.#stores.delete(store.storeId);
      if (this.#stores.size > 0) return;
      clearTimeout(this.#timer);
      this.#timer = undefined;
    });
    this.#timer ??= this.#schedule();
    return stream.readable;
  }

  stop(): Promise<void> {
    return this.#streams.stop();
  }

  /** The next tick begins after the last one has ended, so that a slow database gets no more statements. */
  #schedule(): NodeJS.Timeout {
    const timer = setTimeout(() => {
      void this.#tick().then(() => {
        // The last page was closed meanwhile, and another one may have scheduled a tick.
        if (this.#timer === timer) this.#timer = this.#stores.size > 0 ? this.#schedule() : undefined;
      });
    }, this.#pollMs);
    return timer;
  }

  async #tick(): Promise<void> {
    const { sql, clock, log } = this.#deps;
    // One store after another: reading their activities takes one connection of the pool.
    for (const open of this.#stores.values()) {
      try {
        const activity = await readActivity(sql, open, dayOf(clock.now()));
        for (const page of open.pages) {
          // A page that has not read the last event is notified after it has.
          if (activity === page.seen || page.stream.readable.readableLength > 0) continue;
          void page.stream.send('data: changed');
          page.seen = activity;
        }
      } catch (error) {
        if (isUnavailable(error)) return;
        log.error({ err: error, store: open.storeId }, 'live pages could not be updated');
      }
    }
  }
}

/** Returns the handler of the stream of a store, for people who are signed in and have access to it. */
export function createLive(
  streams: Pick<LiveStreams, 'open'>,
  { visitorOf, clock }: Pick<Pages, 'visitorOf'> & { clock: Clock },
): RawHandler {
  const storeOf = async ({ cookies, headers, params }: RawRequest): Promise<StoreKey | undefined> => {
    // Without an address: an open stream does not keep the session alive.
    const visitor = await visitorOf({ cookies, headers, params, now: clock.now() });
    return visitor === null || visitor.enrolAt(undefined) !== undefined
      ? undefined
      : storeOfAddress({ params, principal: visitor.principal });
  };
  const endReasonOf = (request: RawRequest) => async () => {
    try {
      return (await storeOf(request)) === undefined ? 'unauthorized' : undefined;
    } catch (error) {
      if (error instanceof Problem) return 'unauthorized';
      throw error;
    }
  };
  return async (request) => {
    const store = await storeOf(request);
    if (store === undefined) throw notFound('store');
    return {
      status: 200,
      headers: { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' },
      body: request.method === 'HEAD' ? '' : streams.open(store, request.query.get('seen') ?? '', endReasonOf(request)),
    };
  };
}
