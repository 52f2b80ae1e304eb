/** Sends API requests and parses the responses, as a client program does. */
import { send } from './send.ts';

export type Link = { href: string; title?: string };
export interface Representation {
  _links: Record<string, Link>;
  _embedded?: Record<string, Representation[]>;
  [name: string]: unknown;
}
export type Reply = { status: number; headers: Headers; body: Representation };

type Asked = { token: string; body?: unknown; headers?: Record<string, string> };

/** `path` may be an absolute URL of `issuer`, as in links; the request goes to `origin`. */
export function createCaller(origin: string, issuer: string) {
  return async (method: string, path: string, { token, body, headers = {} }: Asked): Promise<Reply> => {
    const response = await send(origin + path.replace(issuer, ''), {
      method,
      headers: {
        'SERVICE-API-VERSION': '1',
        Authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const read = JSON.parse(response.text === '' ? '{"_links":{}}' : response.text) as Representation;
    return { status: response.status, headers: response.headers, body: read };
  };
}

/** Returns the faults of an error document as `field code`, in alphabetical order. */
export function faultsOf({ body }: Reply): string[] {
  const faults = (body._embedded?.['svc:errors'] ?? []) as unknown as { field?: string; code: string }[];
  return faults.map(({ field = '-', code }) => `${field} ${code}`).toSorted((a, b) => (a < b ? -1 : 1));
}

export function itemsOf({ body }: Reply, rel: string): Representation[] {
  return body._embedded?.[`svc:${rel}`] ?? [];
}
