import type * as http from 'node:http';
import { createRequire } from 'node:module';

/**
 * The module `node:http`, by `require`: an `import` reads every export, and for one of them, WebSocket, Node loads its own undici: 7 MiB and
 * 70 ms of each process.
 */
export const nodeHttp = createRequire(import.meta.url)('node:http') as typeof http;
