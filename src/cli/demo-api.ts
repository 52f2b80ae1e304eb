/** What the demo does over the API like anybody else: get a fresh token, make a webhook. */
import { rootOf } from '#http/root.ts';
import { isIPv6 } from 'node:net';
import type { Config } from '#config.ts';
import type { DemoFile } from './demo.ts';

/** The API as this machine reaches it, whatever its public address is. */
const localAddress = ({ host, port, baseUrl }: Config): string =>
  `http://${isIPv6(host) ? `[${host}]` : host}:${port}${rootOf(baseUrl)}`;

const answerOf = async <T>(response: Response, what: string): Promise<T> => {
  if (!response.ok) throw new Error(`${what}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
};

const refresh = async (file: DemoFile, local: string): Promise<string> => {
  const { client_id, client_secret } = file.client;
  const form = { grant_type: 'refresh_token', refresh_token: file.refresh_token, client_id, client_secret };
  const response = await fetch(`${local}/token`, { method: 'POST', body: new URLSearchParams(form) });
  const answer = await answerOf<{ access_token: string }>(response, 'No fresh token for the demo');
  return answer.access_token;
};

const createWebhook = async (file: DemoFile, local: string, versionHeader: string): Promise<number> => {
  const response = await fetch(`${local}/stores/${file.store_id}/webhooks`, {
    method: 'POST',
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
  });
  return (await answerOf<{ id: number }>(response, "The demo's webhook could not be made")).id;
};

/** The demo's file as it is now: with a token that is good for two hours, and with the id of its webhook. */
export const completeFile = async (file: DemoFile, config: Config): Promise<DemoFile> => {
  const local = localAddress(config);
  if (file.webhook_id !== undefined) return { ...file, access_token: await refresh(file, local) };
  const fresh = { ...file, access_token: await refresh(file, local) };
  return { ...fresh, webhook_id: await createWebhook(fresh, local, config.naming.versionHeader) };
};
