/** The addresses of src/routes.ts, without anybody behind them: tests that go over all of them miss no new one. */
import type { Route } from '#http/route.ts';
import { routesOf, type Rooms } from '../../src/routes.ts';

const nobody: unknown = new Proxy({}, { get: () => nobody });

/** `baseUrl` is where both the API and the pages are. */
export const routeTable = (baseUrl: string): readonly Route[] =>
  routesOf(nobody as Rooms, { baseUrl, authUrl: baseUrl });

/** The path with each parameter filled in; throws where the table has one that `named` does not know. */
export const fillIn = ({ path }: Pick<Route, 'path'>, named: Readonly<Record<string, string>>): string =>
  path.replaceAll(/:(\w+)/g, (_, name: string) => {
    const value = named[name];
    if (value === undefined) throw new Error(`Say what :${name} of ${path} is`);
    return value;
  });
