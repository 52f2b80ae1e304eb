/** The module `node:http` for what every process runs. */
import { createRequire } from 'node:module';

/**
 * Loaded by `require`: an `import` reads every export, and for one of them, WebSocket, Node loads its own undici: 7 MiB and 70 ms of each
 * process.
 */
export const nodeHttp = createRequire(import.meta.url)('node:http') as typeof import('node:http');
