/** What the demo does over the API like anybody else: get a fresh token, make a webhook. */
import { rootOf } from '#http/root.ts';
import { isIPv6 } from 'node:net';
import type { Config } from '#config/config.ts';
import type { DemoFile } from './demo.ts';
import { exchange, reasonOf, type Asked, type Json } from './session/exchange.ts';

/** The API as this machine reaches it, whatever its public address is. */
const localAddress = ({ host, port, baseUrl }: Config): string =>
  `http://${isIPv6(host) ? `[${host}]` : host}:${port}${rootOf(baseUrl)}`;

/** The answer of this server, within 30 s; throws where it refuses. */
const ask = async (address: string, asked: Asked, what: string): Promise<Json> => {
  const answered = await exchange(address, { method: 'POST', ...asked });
  if (answered.status >= 300) throw new Error(`${what}: ${answered.status} ${reasonOf(answered)}`);
  return answered.json;
};

const refresh = async (file: DemoFile, local: string): Promise<string> => {
  const { client_id, client_secret } = file.client;
  const form = { grant_type: 'refresh_token', refresh_token: file.refresh_token, client_id, client_secret };
  const answer = await ask(`${local}/token`, { body: new URLSearchParams(form) }, 'No fresh token for the demo');
  return String(answer['access_token']);
};

const createWebhook = async (file: DemoFile, local: string, versionHeader: string): Promise<number> => {
  const asked = {
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
  const answer = await ask(`${local}/stores/${file.store_id}/webhooks`, asked, "The demo's webhook could not be made");
  return Number(answer['id']);
};

/** The demo's file as it is now: with a token that is good for two hours, and with the id of its webhook. */
export const completeFile = async (file: DemoFile, config: Config): Promise<DemoFile> => {
  const local = localAddress(config);
  if (file.webhook_id !== undefined) return { ...file, access_token: await refresh(file, local) };
  const fresh = { ...file, access_token: await refresh(file, local) };
  return { ...fresh, webhook_id: await createWebhook(fresh, local, config.naming.versionHeader) };
};
