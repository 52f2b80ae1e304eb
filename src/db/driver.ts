/**
 * Patches the driver `postgres` 3.4.9 when it is loaded. When a connection breaks, the driver keeps the pending chunk and its
 * write timer, so the replacement connection never writes: each attempt ends in CONNECT_TIMEOUT, for minutes, and its queries
 * wait as long. Found by cutting connections under load; known upstream and not released (porsager/postgres 1133, 1209, 1215).
 * Rejected: replacing the pool at the first time-out, which costs ten seconds each time; a fork of 3,000 lines for three.
 */
import { registerHooks } from 'node:module';

const FILE = '/postgres/src/connection.js';

/** Pairs of original text and replacement. */
const PATCHES: readonly (readonly [string, string])[] = [
  [
    "clearImmediate(nextWriteTimer)\n    socket.removeListener('data', data)",
    "clearImmediate(nextWriteTimer)\n    chunk = nextWriteTimer = null\n    socket.removeListener('data', data)",
  ],
  // After a reset, a later statement (the ROLLBACK of a transaction) stays first in the queue of the next connection, which
  // then executes one statement and waits for the reply to the stale one for ever.
  [
    "!hadError && (query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))",
    ";(query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))\n    query = null",
  ],
  // A transaction that continues after its connection broke must not crash the process.
  ['const x = socket.write(chunk, fn)', 'const x = socket === null || socket.write(chunk, fn)'],
  // The kernel takes a quarter of an hour to give up a peer that vanished, and a timer outside the pool cannot find the
  // connection of the statement. The statement is cancelled, so that a slow one does not run beside its successor.
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

/** Returns the patched source; throws unless each original text occurs exactly once. */
const patch = (source: string): string =>
  PATCHES.reduce((text, [original, replacement]) => {
    if (text.split(original).length !== 2)
      throw new Error('The patches do not match this version of the PostgreSQL driver');
    return text.replace(original, replacement);
  }, source);

let isPatched = false;
const hooks = registerHooks({
  load: (url, context, nextLoad) => {
    const loaded = nextLoad(url, context);
    if (!url.endsWith(FILE)) return loaded;
    const source = patch(Buffer.from(loaded.source as Uint8Array).toString());
    isPatched = true;
    return { ...loaded, source };
  },
});
export const { default: postgres } = await import('postgres');
hooks.deregister();
if (!isPatched) throw new Error('The PostgreSQL driver was loaded before it could be patched');
