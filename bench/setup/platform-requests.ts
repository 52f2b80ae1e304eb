/** Requests of a platform: its token, and the bodies that it publishes. */
import { basic, type Credentials } from './token-seed.ts';

export const json = { 'service-api-version': '1', 'content-type': 'application/json' };

export async function post(
  origin: string,
  path: string,
  authorization: string,
  body: string,
  type: string,
): Promise<Response> {
  const headers = { ...json, 'content-type': type, authorization };
  const response = await fetch(origin + path, { method: 'POST', headers, body });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response;
}

/** The platform's access token, as its client gets it. */
export async function platformToken(origin: string, credentials: Credentials): Promise<string> {
  const form = 'application/x-www-form-urlencoded';
  const response = await post(origin, '/token', basic(credentials), 'grant_type=client_credentials', form);
  return ((await response.json()) as { access_token: string }).access_token;
}

/** Returns the function that makes the body of a publish; each event has a resource of its own. */
export function publishBodies(
  arrayOf: number,
  makers: readonly ((n: number) => { resourceId: string; body: string })[],
) {
  let n = 0;
  const one = (at: number): string => {
    const { body } = makers[at % makers.length]?.((n += 1)) ?? { body: '{}' };
    return `{"event":"transaction_log/created","resource":{"at":0,${body.slice(1)}}`;
  };
  return (count: number): string[] =>
    Array.from({ length: count }, (_, at) =>
      arrayOf === 1 ? one(at) : `[${Array.from({ length: arrayOf }, () => one(at)).join(',')}]`,
    );
}
