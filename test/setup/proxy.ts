/** What stands between Halcyon and PostgreSQL, and fails: connections that break, go silent or lose what comes back. */
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { once } from 'node:events';
import { Transform } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { DatabaseAddress } from '#db/pool.ts';
import type { Endings } from './endings.ts';
import { until } from './until.ts';

type SocketAddress = Extract<DatabaseAddress, { kind: 'socket' }>;

export type Proxy = {
  /** The database, through here. */
  url: string;
  /** Resets all connections; answers how many there were. */
  cut: () => number;
  /**
   * From the next COMMIT on that is carried out what is asked arrives and what is answered does not, until all is reset
   * `afterMs` later: nobody knows what was done. Answers how many COMMITs were carried out, of which nobody heard. Rejects
   * where there is none in ten seconds.
   */
  cutUnanswered: (afterMs: number) => Promise<number>;
  /** Nothing passes any more through the connections there are, and nobody is told. */
  silence: () => void;
  /** The same for those that are opened from now on, until all is reset: as where the machine is gone. */
  vanish: () => void;
};

/** How the server says that it carried out a COMMIT: the tag of its CommandComplete. */
const COMMITTED = 'COMMIT\0';

const socketOf = ({ directory }: SocketAddress): string => `${directory}/.s.PGSQL.5432`;

export const startProxy = async (address: SocketAddress, ends: Endings): Promise<Proxy> => {
  const path = socketOf(address);
  const pairs = new Set<readonly [Socket, Socket]>();
  /** Whether an answer gets through. */
  let passes = (_answer: Buffer): boolean => true;
  let isGone = false;
  const server = createServer((client) => {
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
      // Of one that is ending, Node.js (26.10) refuses the reset (EINVAL) and keeps the socket: the process would never end.
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
    vanish: () => {
      isGone = true;
      silence();
    },
  };
};
