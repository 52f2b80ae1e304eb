/** The addresses of src/server/routes.ts, without anybody behind them: tests that go over all of them miss no new one. */
import type { Operation } from '#http/operation.ts';
import type { Method, Resource, Route } from '#http/route.ts';
import { readConfig } from '../../src/config/config.ts';
import { compose, type ComposeDeps } from '../../src/server/compose.ts';
import { routesOf, type Handlers } from '../../src/server/routes.ts';

const nobody: unknown = new Proxy({}, { get: () => nobody });

/** `baseUrl` is where both the API and the pages are. */
export function routeTable(baseUrl: string): readonly Route[] {
  return routesOf(nobody as Handlers, { baseUrl, authUrl: baseUrl });
}

/** Its resources with the operations as the handlers describe them: who may ask, what they take. They cannot be called. */
export function resourceTable(baseUrl: string): readonly Resource[] {
  const known = { config: readConfig({ BASE_URL: baseUrl }, '/'), secretKeys: [Buffer.alloc(32)] as const };
  const deps: unknown = new Proxy(known, {
    get: (at, name) => (Reflect.has(at, name) ? Reflect.get(at, name) : nobody),
  });
  return routesOf(compose(deps as ComposeDeps).handlers, known.config).filter((route) => route.kind === 'resource');
}

export type Described = { path: string; method: Method; operation: Operation };

/** Every operation of the resources, one by one. */
export function operationTable(baseUrl: string): readonly Described[] {
  return resourceTable(baseUrl).flatMap(({ path, operations }) =>
    Object.entries(operations).map(([method, operation]) => ({ path, method: method as Method, operation })),
  );
}

/** The path with each parameter filled in; throws where the table has one that `named` does not know. */
export function fillIn({ path }: Pick<Route, 'path'>, named: Readonly<Record<string, string>>): string {
  return path.replaceAll(/:(\w+)/g, (_, name: string) => {
    const value = named[name];
    if (value === undefined) throw new Error(`Say what :${name} of ${path} is`);
    return value;
  });
}
