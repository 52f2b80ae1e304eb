/** Calls the API for the demo: refreshes the access token and creates the webhook. */
import { rootOf } from '#http/root.ts';
import type { Config } from '#config/config.ts';
import type { DemoFile } from './demo.ts';
import type { Send } from '#server/app.ts';
import { objectIn, reasonOf, type Json, type JsonResponse } from './session/json-request.ts';

/** Sends a request in the process and returns the JSON response. */
async function exchange(send: Send, path: string, options?: Parameters<Send>[1]): Promise<JsonResponse> {
  const { status, text } = await send(path, options);
  return { status, json: objectIn(text) };
}

/** Sends a POST and returns the response body; throws if the server rejects it. `failure` begins the message. */
async function post(send: Send, path: string, options: Parameters<Send>[1], failure: string): Promise<Json> {
  const response = await exchange(send, path, { ...options, method: 'POST' });
  if (response.status >= 300) throw new Error(`${failure}: ${response.status} ${reasonOf(response)}`);
  return response.json;
}

/** Returns a new access token; undefined if the app was disconnected. */
async function refresh(file: DemoFile, config: Config, send: Send): Promise<string | undefined> {
  const { client_id, client_secret } = file.client;
  const form = { grant_type: 'refresh_token', refresh_token: file.refresh_token, client_id, client_secret };
  const { json } = await exchange(send, `${rootOf(config.baseUrl)}/token`, {
    method: 'POST',
    body: new URLSearchParams(form),
  });
  const { access_token: token } = json;
  return typeof token === 'string' ? token : undefined;
}

async function createWebhook(file: DemoFile, { baseUrl, naming }: Config, send: Send): Promise<number> {
  const options = {
    headers: {
      [naming.versionHeader]: '1',
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
  const path = `${rootOf(baseUrl)}/stores/${file.store_id}/webhooks`;
  const { id } = await post(send, path, options, 'The demo webhook cannot be created');
  return Number(id);
}

/** Calls of the API; each throws if the server rejects it. */
export type DemoApi = {
  platformToken: () => Promise<string>;
  get: (path: string, token: string) => Promise<Json>;
  post: (path: string, token: string, body: object) => Promise<Json>;
};

export function demoApi({ platform }: Pick<DemoFile, 'platform'>, config: Config, send: Send): DemoApi {
  const root = rootOf(config.baseUrl);
  const headersOf = (token: string) => ({ [config.naming.versionHeader]: '1', Authorization: `Bearer ${token}` });
  return {
    platformToken: async () => {
      const form = new URLSearchParams({ grant_type: 'client_credentials', scope: 'platform', ...platform });
      const { access_token: token } = await post(send, `${root}/token`, { body: form }, 'The platform has no token');
      return String(token);
    },
    get: async (path, token) => {
      const response = await exchange(send, root + path, { headers: headersOf(token) });
      if (response.status !== 200) throw new Error(`${path} cannot be read: ${response.status} ${reasonOf(response)}`);
      return response.json;
    },
    post: (path, token, body) =>
      post(
        send,
        root + path,
        { headers: { ...headersOf(token), 'Content-Type': 'application/json' }, body: JSON.stringify(body) },
        `${path} was rejected`,
      ),
  };
}

/**
 * Returns the demo file with a new access token, valid for two hours, and the id of the webhook, created if it is missing. Throws if the
 * app was disconnected.
 */
export async function completeFile(
  file: DemoFile,
  config: Config,
  send: Send,
): Promise<DemoFile & { webhook_id: number }> {
  const token = await refresh(file, config, send);
  if (token === undefined)
    throw new Error(
      'Demo App is no longer connected, so its webhook receives nothing and demo.json has no access token. ' +
        'A start with another HALCYON_DATA makes a new demo',
    );
  const fresh = { ...file, access_token: token };
  return { ...fresh, webhook_id: file.webhook_id ?? (await createWebhook(fresh, config, send)) };
}
