/** Publishes over HTTP until stopped, and repeats each request under its key until it is answered. */
import { setTimeout as delay } from 'node:timers/promises';

const CONNECTIONS = 4;
const EVENTS_AT_ONCE = 10;
const ASK_AGAIN_MS = 50;
const FULL_MS = 10;
/** The default name of a load. */
export const LOAD = 'fleet';
/** Statuses that ask to retry later. Every other error status is a fault. */
const LATER: ReadonlySet<number> = new Set([429, 503]);

export type Load = {
  /** Deliveries that must arrive, by webhook and resource: those of every successful publish request. */
  accepted: Set<string>;
  /** Responses that no publisher should get, whatever happens to the database and the workers. */
  unexpected: string[];
  /** How many requests got no response, and how many a request to retry later. */
  silent: number;
  later: number;
  stop: () => Promise<void>;
  /** Ends it at once, without waiting for responses: the test has failed. */
  abandon: () => void;
};

export type Place = { storeId: number; paths: readonly string[] };

/** `full` returns whether enough deliveries are unfinished. `origins` is called before each request: servers come and go. */
export function startLoad(given: {
  places: readonly Place[];
  token: string;
  origins: () => readonly string[];
  full: (accepted: number) => boolean;
  /** Events published with each array, without a subscriber. */
  also?: readonly object[];
  /** Part of the published ids, so that no other load publishes the same. */
  name?: string;
}): Load {
  const { places, token, origins, full, also = [], name = LOAD } = given;
  const stopping = new AbortController();
  let isAbandoned = false;
  let published = 0;

  const send = async (origin: string, storeId: number, key: string, body: string): Promise<boolean> => {
    const headers = {
      'SERVICE-API-VERSION': '1',
      Authorization: `Bearer ${token}`,
      'Content-Type': 'application/json',
      'Idempotency-Key': key,
    };
    const answer = await fetch(`${origin}/stores/${storeId}/events`, { method: 'POST', headers, body }).then(
      async (response) => ({ status: response.status, text: await response.text() }),
      () => undefined,
    );
    if (answer === undefined) load.silent += 1;
    else if (answer.status === 200) return true;
    else if (LATER.has(answer.status)) load.later += 1;
    else load.unexpected.push(`${answer.status} ${answer.text.slice(0, 300)}`);
    return false;
  };

  /** Sends one array for one place until it is accepted. */
  const publish = async ({ storeId, paths }: Place): Promise<void> => {
    published += 1;
    const ids = Array.from({ length: EVENTS_AT_ONCE }, (_, at) => `${name}-${published}-${at}`);
    const key = `${name}-${published}`;
    const own = ids.map((id) => ({ event: 'transaction/created', resource: { id, total_order: 9.5 } }));
    const body = JSON.stringify([...own, ...also]);
    for (let tries = published; ; tries += 1) {
      const servers = origins();
      const origin = servers[tries % servers.length];
      if (origin !== undefined && (await send(origin, storeId, key, body))) break;
      if (load.unexpected.length > 0 || isAbandoned) return;
      await delay(ASK_AGAIN_MS);
    }
    for (const path of paths) for (const id of ids) load.accepted.add(`${path} ${id}`);
  };

  const connection = async (first: number): Promise<void> => {
    for (let at = first; !stopping.signal.aborted; at += CONNECTIONS) {
      const place = places[at % places.length];
      if (place === undefined || full(load.accepted.size)) await delay(FULL_MS);
      else await publish(place);
    }
  };

  const load: Load = {
    accepted: new Set(),
    unexpected: [],
    silent: 0,
    later: 0,
    abandon: () => {
      isAbandoned = true;
      stopping.abort();
    },
    stop: async () => {
      stopping.abort();
      await connections;
    },
  };
  const connections = Promise.all(Array.from({ length: CONNECTIONS }, (_, at) => connection(at)));
  return load;
}
