/** Calls the API for the demo: refreshes the access token and creates the webhook. */
import { rootOf } from '#http/root.ts';
import { isIPv6 } from 'node:net';
import type { Config } from '#config/config.ts';
import type { DemoFile } from './demo.ts';
import { exchange, reasonOf, type RequestOptions, type Json } from './session/exchange.ts';

/** Returns the local address of the API, independent of its public address. */
const localAddress = ({ host, port, baseUrl }: Config): string =>
  `http://${isIPv6(host) ? `[${host}]` : host}:${port}${rootOf(baseUrl)}`;

/** Sends a POST and returns the response body within 30 s; throws if the server rejects it. `failure` begins the message. */
async function post(address: string, options: RequestOptions, failure: string): Promise<Json> {
  const response = await exchange(address, { method: 'POST', ...options });
  if (response.status >= 300) throw new Error(`${failure}: ${response.status} ${reasonOf(response)}`);
  return response.json;
}

async function refresh(file: DemoFile, local: string): Promise<string> {
  const { client_id, client_secret } = file.client;
  const form = { grant_type: 'refresh_token', refresh_token: file.refresh_token, client_id, client_secret };
  const { access_token: token } = await post(
    `${local}/token`,
    { body: new URLSearchParams(form) },
    'The demo token cannot be refreshed',
  );
  return String(token);
}

async function createWebhook(file: DemoFile, local: string, versionHeader: string): Promise<number> {
  const options = {
    headers: {
      [versionHeader]: '1',
      Authorization: `Bearer ${file.access_token}`,
      'Content-Type': 'application/json',
    },
    body: JSON.stringify({
      name: 'Demo receiver',
      format: 'json',
      url: file.receiver.url,
      query: 'zoom=items',
      event_resource: 'transaction',
      encryption_key: file.receiver.encryption_key,
    }),
  };
  const { id } = await post(`${local}/stores/${file.store_id}/webhooks`, options, 'The demo webhook cannot be created');
  return Number(id);
}

/** Calls of the local API; each throws if the server rejects it. */
export type DemoApi = {
  platformToken: () => Promise<string>;
  get: (path: string, token: string) => Promise<Json>;
  post: (path: string, token: string, body: object) => Promise<Json>;
};

export function demoApi({ platform }: Pick<DemoFile, 'platform'>, config: Config): DemoApi {
  const local = localAddress(config);
  const headersOf = (token: string) => ({ [config.naming.versionHeader]: '1', Authorization: `Bearer ${token}` });
  return {
    platformToken: async () => {
      const form = new URLSearchParams({ grant_type: 'client_credentials', scope: 'platform', ...platform });
      const { access_token: token } = await post(`${local}/token`, { body: form }, 'The platform has no token');
      return String(token);
    },
    get: async (path, token) => {
      const response = await exchange(local + path, { headers: headersOf(token) });
      if (response.status !== 200) throw new Error(`${path} cannot be read: ${response.status} ${reasonOf(response)}`);
      return response.json;
    },
    post: (path, token, body) =>
      post(
        local + path,
        { headers: { ...headersOf(token), 'Content-Type': 'application/json' }, body: JSON.stringify(body) },
        `${path} was rejected`,
      ),
  };
}

/** Returns the demo file with a new access token, valid for two hours, and the id of the webhook, created if it is missing. */
export async function completeFile(file: DemoFile, config: Config): Promise<DemoFile & { webhook_id: number }> {
  const local = localAddress(config);
  const fresh = { ...file, access_token: await refresh(file, local) };
  const id = file.webhook_id ?? (await createWebhook(fresh, local, config.naming.versionHeader));
  return { ...fresh, webhook_id: id };
}
