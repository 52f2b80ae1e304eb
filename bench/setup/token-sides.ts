/** Those who are compared by P6, each a process of its own over the same PostgreSQL. */
import { randomBytes } from 'node:crypto';
import { freePort } from '../../test/setup/free-port.ts';
import { readConfig } from '../../src/config/config.ts';
import { startChild, type Child } from './child.ts';
import type { Database } from './database.ts';
import type { Target } from './http-load-process.ts';
import type { OidcProcess } from './oidc-process.ts';
import type { Defer } from './run.ts';
import type { TokenProcess } from './token-process.ts';
import { basic, seedCodes, type SeededClient } from './token-seed.ts';

/** One of those that are compared. */
export type Side = {
  name: string;
  settings: string;
  target: Target;
  process: Pick<Child<TokenProcess>, 'cpuMs' | 'stop'>;
  newCodes: (count: number) => Promise<string[]>;
  statements: () => Promise<number>;
};

export type Start = (defer: Defer, options?: { counts?: boolean; execArgv?: readonly string[] }) => Promise<Side>;

export function serverOf(database: Database, seeded: SeededClient): Start {
  return async (defer, { counts = false, execArgv = [] } = {}) => {
    const server = await startChild<TokenProcess>(defer, import.meta.resolve('./token-process.ts'), execArgv);
    const port = await freePort();
    const settings = await server.ask('start', { address: database.address, port, secretKey: randomBytes(32), counts });
    return {
      name: 'halcyon',
      settings,
      target: { origin: `http://127.0.0.1:${port}`, path: '/token', authorization: basic(seeded.credentials) },
      process: server,
      newCodes: (count) => seedCodes(database.sql, seeded, count),
      statements: () => server.ask('statements', null),
    };
  };
}

export function rivalOf(database: Database, { credentials }: SeededClient, isStored: boolean): Start {
  return async (defer, { counts = false } = {}) => {
    const rival = await startChild<OidcProcess>(defer, import.meta.resolve('./oidc-process.ts'));
    const port = await freePort();
    const { connections } = readConfig({}, '/').database;
    const { address } = database;
    const settings = await rival.ask('start', { address, port, credentials, connections, isStored, counts });
    return {
      name: isStored ? 'oidc-provider' : 'oidc-provider, client in its configuration',
      settings: `connections=${connections}, ${settings}`,
      target: { origin: `http://127.0.0.1:${port}`, path: '/token', authorization: basic(credentials) },
      process: rival,
      newCodes: (count) => rival.ask('codes', count),
      statements: () => rival.ask('statements', null),
    };
  };
}
