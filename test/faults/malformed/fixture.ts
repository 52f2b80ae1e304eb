/** The targets of malformed requests: every operation of every route, with ids of existing objects. */
import type { TSchema } from 'typebox';
import { formats } from '#hypermedia/render.ts';
import { startFurnishedApp, type FurnishedApp } from '../../setup/app-with-resources.ts';
import { createBrowser } from '../../security/oauth-server.ts';
import { fillIn, operationTable, routeTable } from '../../security/route-table.ts';

export type Header = readonly [name: string, value: string];

export type Spot = {
  method: string;
  path: string;
  /** The input of the operation; undefined without input, or for a page or a protocol. */
  input: TSchema | undefined;
  /** Whether errors have the common format; pages and protocols have their own. */
  isResource: boolean;
};

/** A read that succeeds, and its credentials. */
export type Good = { path: string; who: readonly Header[] };

export type Fixture = {
  app: FurnishedApp;
  spots: readonly Spot[];
  good: readonly Good[];
  /** The kinds of credentials: a store's app, the platform, a person, none. */
  credentials: readonly (readonly Header[])[];
  mediaTypes: readonly string[];
};

const VERSION: Header = ['SERVICE-API-VERSION', '1'];
const bearer = (token: string): readonly Header[] => [VERSION, ['Authorization', `Bearer ${token}`]];

async function signIn(baseUrl: string): Promise<readonly Header[]> {
  const browser = createBrowser(baseUrl);
  await browser.signIn('owner@example.com', 'a long password');
  const cookie = browser.cookie();
  if (cookie === undefined) throw new Error('The sign-in failed');
  return [
    ['Cookie', cookie],
    ['Accept', 'text/html'],
    ['Sec-Fetch-Site', 'same-origin'],
  ];
}

/** Returns a read that succeeds, with its token; undefined if both tokens lack access. */
async function goodRead({ baseUrl, token, platformToken }: FurnishedApp, path: string): Promise<Good | undefined> {
  for (const who of [token, platformToken].map(bearer)) {
    const { status } = await fetch(baseUrl + path, {
      headers: who.map(([name, value]): [string, string] => [name, value]),
    });
    if (status === 200) return { path, who };
  }
  return undefined;
}

export async function openFixture(): Promise<Fixture> {
  const app = await startFurnishedApp({ env: { API_RATE_PER_SECOND: '0', LOG_LEVEL: 'silent', MCP: '1' } });
  const at = (path: string) => fillIn({ path }, app.named);
  const resources = operationTable(app.baseUrl).map(({ path, method, operation: { input } }): Spot => ({
    method,
    path: at(path),
    input,
    isResource: true,
  }));
  // The answer of `live` has no end, so that no other request could follow on its connection.
  const rawEndpoints = routeTable(app.baseUrl)
    .filter(({ kind, path }) => kind === 'raw' && !path.endsWith('/live'))
    .flatMap(({ path, operations }) =>
      Object.keys(operations).map((method): Spot => ({ method, path: at(path), input: undefined, isResource: false })),
    );
  const reads = await Promise.all(
    resources.filter(({ method }) => method === 'GET').map(({ path }) => goodRead(app, path)),
  );
  return {
    app,
    spots: [...resources, ...rawEndpoints],
    good: reads.filter((read) => read !== undefined),
    credentials: [bearer(app.token), bearer(app.platformToken), await signIn(app.baseUrl), [VERSION]],
    mediaTypes: formats.flatMap(({ mediaTypes }) => mediaTypes),
  };
}
