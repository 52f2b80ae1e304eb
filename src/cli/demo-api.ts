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

/** Returns the demo file with a new access token, valid for two hours, and the id of the webhook, created if it is missing. */
export async function completeFile(file: DemoFile, config: Config): Promise<DemoFile> {
  const local = localAddress(config);
  if (file.webhook_id !== undefined) return { ...file, access_token: await refresh(file, local) };
  const fresh = { ...file, access_token: await refresh(file, local) };
  return { ...fresh, webhook_id: await createWebhook(fresh, local, config.naming.versionHeader) };
}
