/** A faulty proxy between Halcyon and PostgreSQL: breaks connections, stops forwarding, or loses responses. */
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { once } from 'node:events';
import { Transform } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { DatabaseAddress } from '#db/pool.ts';
import type { Cleanups } from './cleanups.ts';
import { until } from './until.ts';

type SocketAddress = Extract<DatabaseAddress, { kind: 'socket' }>;

export type Proxy = {
  /** The address of the database through the proxy. */
  url: string;
  /** Resets all connections and returns their number. */
  cut: () => number;
  /**
   * From the next successful COMMIT on, forwards requests but drops responses, and resets all connections `afterMs` later, so
   * that the client does not know the result. Returns the number of COMMITs whose response was dropped. Rejects if there is none
   * in ten seconds.
   */
  cutUnanswered: (afterMs: number) => Promise<number>;
  /** Stops forwarding on existing connections without closing them. */
  silence: () => void;
  /** The same for new connections until the reset, as if the machine were unreachable. */
  vanish: () => void;
  /** Resets all connections, and refuses new ones until `open`, as if the server had stopped. */
  close: () => void;
  open: () => void;
};

/** The CommandComplete tag of a COMMIT. */
const COMMITTED = 'COMMIT\0';

const socketOf = ({ directory }: SocketAddress): string => `${directory}/.s.PGSQL.5432`;

export async function startProxy(address: SocketAddress, ends: Cleanups): Promise<Proxy> {
  const path = socketOf(address);
  const pairs = new Set<readonly [Socket, Socket]>();
  /** Returns whether a response is forwarded. */
  let passes = (_answer: Buffer): boolean => true;
  let isGone = false;
  let isClosed = false;
  const server = createServer((client) => {
    if (isClosed) return void client.resetAndDestroy();
    const upstream = connect(path);
    const pair = [client, upstream] as const;
    pairs.add(pair);
    for (const [from, to] of [pair, [upstream, client] as const]) {
      from.on('error', () => to.destroy());
      from.on('close', () => {
        to.destroy();
        pairs.delete(pair);
      });
    }
    if (isGone) return;
    client.pipe(upstream);
    const answers = new Transform({
      transform: (answer: Buffer, _encoding, done) => (passes(answer) ? done(null, answer) : done()),
    });
    upstream.pipe(answers).pipe(client);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = (): number => {
    isGone = false;
    const all = [...pairs];
    for (const [client, upstream] of all) {
      // Node.js (26.10) refuses to reset an ending socket (EINVAL) and keeps it open: the process would never end.
      if (client.writableEnded) client.destroy();
      else client.resetAndDestroy();
      upstream.destroy();
    }
    return all.length;
  };
  const silence = (): void => {
    for (const [client, upstream] of pairs) {
      client.unpipe(upstream);
      upstream.unpipe();
    }
  };
  ends.after(async () => {
    server.close();
    cut();
  });
  const { user, password, database } = address;
  return {
    url: `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${(server.address() as AddressInfo).port}/${database}`,
    cut,
    cutUnanswered: async (afterMs) => {
      let commits = 0;
      passes = (answer) => {
        commits += answer.toString('latin1').split(COMMITTED).length - 1;
        return commits === 0;
      };
      try {
        await until(
          async () => commits,
          (count) => count > 0,
        );
        await delay(afterMs);
      } finally {
        passes = () => true;
        cut();
      }
      return commits;
    },
    silence,
    close: () => {
      isClosed = true;
      cut();
    },
    open: () => void (isClosed = false),
    vanish: () => {
      isGone = true;
      silence();
    },
  };
}
