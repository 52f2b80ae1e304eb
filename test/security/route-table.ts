/** The addresses of src/server/routes.ts, without handlers: tests that iterate over all of them include each new one. */
import type { Operation } from '#http/operation.ts';
import type { Method, Resource, Route } from '#http/route.ts';
import { readConfig } from '../../src/config/config.ts';
import type { Runtime } from '../../src/runtime/runtime.ts';
import type { Databases } from '../../src/server/databases.ts';
import { compose } from '../../src/server/compose.ts';
import { routesOf } from '../../src/server/routes.ts';

const stub: never = new Proxy({}, { get: () => stub }) as never;

/** `baseUrl` is where both the API and the pages are. */
export function routeTable(baseUrl: string): readonly Route[] {
  return routesOf(stub, { baseUrl, authUrl: baseUrl });
}

/** The resources with the operations as the handlers describe them: permissions and input. They cannot be called. */
export function resourceTable(baseUrl: string): readonly Resource[] {
  const config = readConfig({ BASE_URL: baseUrl }, '/');
  const runtime: Runtime = {
    config,
    clock: stub,
    pace: stub,
    random: stub,
    log: stub,
    sql: stub,
    direct: stub,
    sealer: stub,
    mailer: stub,
    guard: stub,
    derive: () => [Buffer.alloc(32)],
  };
  const home = { runtime, serving: stub, webhooksOfStore: stub } as Pick<
    Databases['home'],
    'runtime' | 'serving' | 'webhooksOfStore'
  >;
  const parts = { databases: { home } as Databases, outbox: stub, health: stub, passwordCost: stub, bearer: stub };
  return routesOf(compose(runtime, parts).handlers, config).filter((route) => route.kind === 'resource');
}

export type Described = { path: string; method: Method; operation: Operation };

/** Returns every operation of the resources, one by one. */
export function operationTable(baseUrl: string): readonly Described[] {
  return resourceTable(baseUrl).flatMap(({ path, operations }) =>
    Object.entries(operations).map(([method, operation]) => ({ path, method: method as Method, operation })),
  );
}

/** Returns the path with each parameter filled in; throws if it has one that `named` does not have. */
export function fillIn({ path }: Pick<Route, 'path'>, named: Readonly<Record<string, string>>): string {
  return path.replaceAll(/:(\w+)/g, (_, name: string) => {
    const value = named[name];
    if (value === undefined) throw new Error(`No value for :${name} of ${path}`);
    return value;
  });
}
