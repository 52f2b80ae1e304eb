/**
 * The driver, mended where it is loaded: `postgres` 3.4.9 leaves behind, when a connection breaks, what it was about to
 * write and the timer for it. The connection that takes its place writes nothing from then on: each try to open it ends in
 * CONNECT_TIMEOUT, for minutes, and whatever is asked of it waits as long. Found by cutting connections under load; known
 * upstream and not released (porsager/postgres 1133, 1209, 1215). Rejected: a pool thrown away at the first time-out, which
 * takes its ten seconds each time; a copy of the driver, 3,000 lines for three.
 */
import { registerHooks } from 'node:module';

const FILE = '/postgres/src/connection.js';

/** What stands in the file, and what has to. */
const MENDED: readonly (readonly [string, string])[] = [
  [
    "clearImmediate(nextWriteTimer)\n    socket.removeListener('data', data)",
    "clearImmediate(nextWriteTimer)\n    chunk = nextWriteTimer = null\n    socket.removeListener('data', data)",
  ],
  // After a reset, what was said since (the ROLLBACK of a transaction) stays first in the queue of the next connection, which
  // answers one statement and then waits for the answer to that one for ever.
  [
    "!hadError && (query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))",
    ";(query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))\n    query = null",
  ],
  // A transaction that goes on after its connection broke must not end the process.
  ['const x = socket.write(chunk, fn)', 'const x = socket === null || socket.write(chunk, fn)'],
  // The kernel takes a quarter of an hour to give up a peer that vanished without a word, and a timer beside the pool cannot
  // tell which of its connections has the statement. If it only was slow, it is not left to run beside the one that is next.
  [
    "socket.on('data', data)\n",
    `socket.on('data', data)
      options.silenceMs && !cancelMessage && socket.setTimeout(options.silenceMs).on('timeout', () => {
        if (!query && !sent.length) return
        Connection(options).cancel(backend, noop, noop)
        socket.destroy()
      })
`,
  ],
];

/** Throws where the driver is another than the one that was looked at. */
const mend = (source: string): string =>
  MENDED.reduce((text, [broken, mended]) => {
    if (text.split(broken).length !== 2) throw new Error('The driver of PostgreSQL is not the one that is mended here');
    return text.replace(broken, mended);
  }, source);

let isMended = false;
const hooks = registerHooks({
  load: (url, context, nextLoad) => {
    const loaded = nextLoad(url, context);
    if (!url.endsWith(FILE)) return loaded;
    const source = mend(Buffer.from(loaded.source as Uint8Array).toString());
    isMended = true;
    return { ...loaded, source };
  },
});
export const { default: postgres } = await import('postgres');
hooks.deregister();
if (!isMended) throw new Error('Somebody loaded the driver of PostgreSQL before it could be mended');
