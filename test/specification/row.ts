/** One row of the specification's tables, or one of its sentences, with the test of it. */
import { startAuthorizationServer } from '../security/oauth-server.ts';

export interface Representation {
  _links: Record<
    string,
    { href: string; title?: string; type?: string; templated?: boolean } & Record<string, unknown>
  >;
  _embedded: Record<string, Representation[]>;
  [name: string]: unknown;
}

export type Reply = { status: number; headers: Headers; text: string; body: Representation };
type Ask = { body?: unknown; headers?: Record<string, string>; token?: string | null };

export type Row = { row: string; holds: (world: World) => Promise<void> };

/** The required properties of a webhook. */
export const MINIMAL = { name: 'Orders', format: 'json', encryption_key: 'a key of mine' } as const;

/** The server with a token for Ada's first store; `api` sends a request to it. */
export async function startWorld() {
  const server = await startAuthorizationServer({ OUTBOUND_ALLOW: '127.0.0.0/8' });
  const redeemed = await server.redeem(await server.newCode());
  const token = String(redeemed.body['access_token']);
  const api = async (method: string, path: string, { body, headers = {}, token: bearer = token }: Ask = {}) => {
    const response = await fetch(
      path.startsWith('http') ? server.origin + new URL(path).pathname + new URL(path).search : server.origin + path,
      {
        method,
        redirect: 'manual',
        headers: {
          'SERVICE-API-VERSION': '1',
          ...(bearer === null ? {} : { Authorization: `Bearer ${bearer}` }),
          ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      },
    );
    const text = await response.text();
    const isJson = /json/.test(response.headers.get('content-type') ?? '');
    const reply: Reply = {
      status: response.status,
      headers: response.headers,
      text,
      body: (isJson && text !== '' ? JSON.parse(text) : {}) as Representation,
    };
    return reply;
  };
  const collection = `/stores/${server.alpha}/webhooks`;
  const create = (changes: Record<string, unknown> = {}) =>
    api('POST', collection, { body: { ...MINIMAL, ...changes } });
  return { server, redeemed, token, api, collection, create };
}

export type World = Awaited<ReturnType<typeof startWorld>>;

/** Returns the faults of a response as `field code`. */
export function faultsIn({ body }: Reply): string[] {
  return (body._embedded?.['svc:errors'] ?? []).map(({ field = '-', code }) => [field, code].join(' '));
}

/** Returns the path of a representation's own address. */
export function selfOf({ body }: Reply): string {
  return new URL(body._links['self']?.href ?? '').pathname;
}
