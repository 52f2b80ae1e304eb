/**
 * Creates the demo at the first start of an embedded database: a user, a store, an app with tokens, the platform's client and a webhook to
 * the built-in receiver. `demo.json` contains their ids and credentials.
 */
import { randomBytes } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { hasUsers } from '#identity/accounts/accounts-sql.ts';
import { createPasswords, PASSWORD_COST, createUser } from '#identity/accounts/users.ts';
import { OPERATOR } from '#changelog/changelog.ts';
import { unreadable } from '#db/data-folder.ts';
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import type { Running } from '#core/lifecycle.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { memberAccessOf } from '#identity/oauth/connected/connected.ts';
import type { RevocationEffects } from '#identity/oauth/grants.ts';
import { grantStoreAccess } from '#identity/oauth/oauth-tokens.ts';
import { findStore } from '#stores/stores-sql.ts';
import { addMemberWithEntry, createStoreWithEntry } from '#stores/audited-changes.ts';
import { shardOf } from '#core/ids.ts';
import type { Config } from '#config/config.ts';
import type { Send } from '#server/app.ts';
import { openInternalEvents } from '#server/publishing.ts';
import { orderEvents } from '#catalog/sample.ts';
import { systemClock, type Clock } from '#core/clock.ts';
import { FAILING_PATH, startDemoReceiver, type DemoReceiver } from './demo-receiver/receiver-server.ts';
import type { Installation } from './installation.ts';
import { rootOf } from '#http/root.ts';
import { objectIn, reasonOf, type Json, type JsonResponse } from './session/json-request.ts';

// Calls the API for the demo.

/** Returns what sends requests in the process; each call throws if the server rejects it. */
function createDemoApi(send: Send, { baseUrl, naming }: Config) {
  const exchange = async (path: string, options: Parameters<Send>[1]): Promise<JsonResponse> => {
    const { status, text } = await send(rootOf(baseUrl) + path, options);
    return { status, json: objectIn(text) };
  };
  return {
    /** Returns the response of the token endpoint. */
    token: (form: Readonly<Record<string, string>>): Promise<JsonResponse> =>
      exchange('/token', { method: 'POST', body: new URLSearchParams(form) }),
    /** Sends a GET, or the body by POST; `failure` begins the message. */
    call: async (
      path: string,
      token: string,
      body?: object,
      failure = `${path} ${body === undefined ? 'cannot be read' : 'was rejected'}`,
    ): Promise<Json> => {
      const headers = { [naming.versionHeader]: '1', Authorization: `Bearer ${token}` };
      const response = await exchange(path, {
        headers: { ...headers, ...(body && { 'Content-Type': 'application/json' }) },
        ...(body && { method: 'POST', body: JSON.stringify(body) }),
      });
      if (response.status >= 300) throw new Error(`${failure}: ${response.status} ${reasonOf(response)}`);
      return response.json;
    },
  };
}
type DemoApi = ReturnType<typeof createDemoApi>;

/** The settings of both webhooks. */
const webhookOf = ({ receiver }: DemoFile) => ({
  format: 'json',
  query: 'zoom=items',
  event_resource: 'transaction',
  encryption_key: receiver.encryption_key,
});

/**
 * Returns the demo file with a new access token, valid for two hours, and the id of the webhook, created if it is missing. Throws if the
 * app was disconnected.
 */
async function completeFile(file: DemoFile, api: DemoApi): Promise<DemoFile & { webhook_id: number }> {
  const { client_id, client_secret } = file.client;
  const form = { grant_type: 'refresh_token', refresh_token: file.refresh_token, client_id, client_secret };
  const { access_token: token } = (await api.token(form)).json;
  if (typeof token !== 'string')
    throw new Error(
      'Demo App is no longer connected, so its webhook receives nothing and demo.json has no access token. ' +
        'A start with another HALCYON_DATA makes a new demo',
    );
  const fresh = { ...file, access_token: token };
  if (file.webhook_id !== undefined) return { ...fresh, webhook_id: file.webhook_id };
  const webhook = { name: 'Demo receiver', url: file.receiver.url, ...webhookOf(file) };
  const failure = 'The demo webhook cannot be created';
  const { id } = await api.call(`/stores/${file.store_id}/webhooks`, token, webhook, failure);
  return { ...fresh, webhook_id: Number(id) };
}

// Creates the demo.

/** Runs the application with a clock, without a port that would show its wrong dates, for as long as `play` takes. */
type PlayWith = (clock: Clock, play: (send: Send) => Promise<void>) => Promise<void>;

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** When orders are published, in ms before the end of the day: hourly, and several times while the endpoint fails. */
const TIMES_MS = [
  ...Array.from({ length: 23 }, (_, hour) => DAY_MS - (hour + 0.5) * HOUR_MS),
  ...[45, 28, 21, 14, 7, 2].map((minutes) => minutes * MINUTE_MS),
].toSorted((a, b) => b - a);
/** The last order of the day. */
const LAST_ORDER = 2_125;
/** Orders of each time: most in the morning and in the evening. */
const ORDERS_MAX = 6;
const TIMEOUT_MS = 10_000;
const POLL_MS = 20;

const ordersAt = (at: Date): number =>
  1 + Math.round((ORDERS_MAX - 1) * Math.abs(Math.sin((at.getUTCHours() / 24) * 2 * Math.PI)));

/** Returns the times of the day with the ids of their orders, which end with the last one. */
function planOf(endMs: number): { behindMs: number; ids: number[] }[] {
  const times = TIMES_MS.map((behindMs) => ({ behindMs, count: ordersAt(new Date(endMs - behindMs)) }));
  let next = LAST_ORDER + 1 - times.reduce((sum, { count }) => sum + count, 0);
  return times.map(({ behindMs, count }) => {
    const ids = Array.from({ length: count }, (_, order) => next + order);
    next += count;
    return { behindMs, ids };
  });
}

/** Waits until all deliveries of a webhook are attempted, or one failed. */
async function untilAttempted(api: DemoApi, token: string, webhookId: number): Promise<void> {
  const deadlineMs = performance.now() + TIMEOUT_MS;
  for (;;) {
    const { total_items: pending } = await api.call(`/webhooks/${webhookId}/statuses?status=pending&limit=1`, token);
    if (Number(pending) === 0) return;
    const { state } = await api.call(`/webhooks/${webhookId}`, token);
    if (state === 'failing') return;
    if (performance.now() > deadlineMs) throw new Error(`Deliveries of the webhook ${webhookId} are still pending`);
    await wait(POLL_MS);
  }
}

/** Publishes orders, and waits until they are delivered or one fails. */
async function playOrders(api: DemoApi, file: DemoFile, orders: { at: Date; ids: number[] }, webhooks: number[]) {
  const response = await api.token({ grant_type: 'client_credentials', scope: 'platform', ...file.platform });
  if (response.status >= 300) throw new Error(`The platform has no token: ${response.status} ${reasonOf(response)}`);
  const token = String(response.json['access_token']);
  const events = orders.ids.flatMap((id) => orderEvents(id, orders.at));
  await api.call(`/stores/${file.store_id}/events`, token, events);
  for (const webhookId of webhooks) await untilAttempted(api, token, webhookId);
}

/**
 * Plays the last day of the store until `isStopping`, so that its pages show what they are for: the whole application runs with a clock
 * that is behind, orders are published by its API, and they are delivered over HTTP. For the last half hour the endpoint of one webhook
 * fails. `keep` writes the file with the webhook of the receiver.
 */
async function playDemoDay(day: {
  file: DemoFile;
  config: Config;
  playWith: PlayWith;
  isStopping: () => boolean;
  keep: (file: DemoFile) => Promise<void>;
}): Promise<void> {
  const { file, config, playWith, keep, isStopping } = day;
  let behindMs = DAY_MS;
  const clock: Clock = { now: () => new Date(Date.now() - behindMs), monotonicMs: systemClock.monotonicMs };
  await playWith(clock, async (send) => {
    const api = createDemoApi(send, config);
    const completed = await completeFile(file, api);
    await keep(completed);
    const { id: warehouse } = await api.call(`/stores/${file.store_id}/webhooks`, completed.access_token, {
      name: 'Warehouse',
      url: new URL(FAILING_PATH, file.receiver.url).href,
      events: ['transaction/captured'],
      ...webhookOf(file),
    });
    const webhooks = [completed.webhook_id, Number(warehouse)];
    for (const one of planOf(Date.now())) {
      if (isStopping()) return;
      ({ behindMs } = one);
      await playOrders(api, file, { at: clock.now(), ids: one.ids }, webhooks);
    }
  });
}

export type DemoFile = {
  base_url: string;
  auth_url: string;
  store_id: number;
  user: { email: string; password: string };
  client: { client_id: string; client_secret: string; redirect_uri: string };
  access_token: string;
  refresh_token: string;
  platform: { client_id: string; client_secret: string };
  receiver: { url: string; encryption_key: string };
  /** The webhook of the receiver; absent until it is created, which requires the running API. */
  webhook_id?: number;
};

export type Demo = Running & {
  path: string;
  file: DemoFile;
  /**
   * Creates the webhook if it is missing, and a new access token, because that of an earlier start has expired; then writes the file.
   * Before, everything in it works.
   */
  complete: (send: Send) => Promise<void>;
  /** Plays the last day of the store, at the first start only. */
  playDay: ((playWith: PlayWith, isStopping: () => boolean) => Promise<void>) | undefined;
};

const EMAIL = 'owner@example.com';
/** The store is older than its first orders. */
const AGE_MS = 25 * 3_600_000;

async function read(path: string): Promise<DemoFile | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as DemoFile;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw unreadable(path, error, 'Restore the original file, or move it away to start without a demo');
  }
}

const write = (path: string, file: DemoFile): Promise<void> =>
  writeFile(path, `${JSON.stringify(file, null, 2)}\n`, { mode: 0o600 });

async function replace(path: string, file: DemoFile): Promise<void> {
  await write(`${path}.new`, file);
  await rename(`${path}.new`, path);
}

async function createDemoData(
  tx: Tx,
  config: Config,
  effects: RevocationEffects,
  receiver: DemoFile['receiver'],
): Promise<DemoFile> {
  const now = new Date(Date.now() - AGE_MS);
  const passwords = createPasswords({ hashesAtOnce: 1, cost: PASSWORD_COST });
  const user = { email: EMAIL, password: randomBytes(9).toString('base64url') };
  const { id: userId } = await createUser(tx, passwords, { ...user, now });
  const store = { name: 'Demo Store', domain: 'demo.example.com', email: EMAIL, timeZone: 'UTC' };
  const by = { changelog: effects.changelog, actor: OPERATOR, now };
  const { id: storeId } = await createStoreWithEntry(tx, store, by);
  await addMemberWithEntry(tx, { storeId, userId, role: 'owner' }, { ...by, access: memberAccessOf(effects) });
  const redirectUri = new URL('/callback', receiver.url).href;
  const app = { name: 'Demo App', company: 'Example Apps', redirectUris: [redirectUri], trusted: false };
  const client = await createClient(tx, { ...app, now });
  const platform = await createClient(tx, { name: 'Demo Platform', redirectUris: [], trusted: true, now });
  const tokens = await grantStoreAccess(tx, effects, config.oauth, {
    clientId: client.client_id,
    userId,
    storeId,
    requiresFactor: false,
    permissions: null,
    now,
  });
  return {
    base_url: config.baseUrl,
    auth_url: config.authUrl,
    store_id: storeId,
    user,
    client: { ...client, redirect_uri: redirectUri },
    access_token: tokens.access_token,
    refresh_token: tokens.refresh_token,
    platform,
    receiver,
  };
}

/** Returns the file of an earlier start, also one that ended before the demo was complete: if its store was committed. */
async function findFile(path: string, sql: Sql): Promise<DemoFile | undefined> {
  const present = await read(path);
  if (present !== undefined) return present;
  const unfinished = await read(`${path}.new`).catch(() => undefined);
  const isCommitted =
    unfinished !== undefined &&
    (await findStore(sql, { shard: shardOf(unfinished.store_id), storeId: unfinished.store_id })) !== undefined;
  return isCommitted ? unfinished : undefined;
}

/** Creates the demo. The unfinished file is written before the commit, so that a crash leaves both or neither. */
async function createFile(path: string, sql: Sql, config: Config, receiver: DemoFile['receiver']): Promise<DemoFile> {
  const effects = openInternalEvents(config);
  return transaction(sql, async (tx) => {
    const created = await createDemoData(tx, config, effects, receiver);
    await write(`${path}.new`, created);
    return created;
  });
}

/** Starts the receiver on a port; returns undefined if the port is taken. */
async function tryStartReceiver(port: number, options: Omit<Parameters<typeof startDemoReceiver>[0], 'port'>) {
  try {
    return await startDemoReceiver({ ...options, port });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    return undefined;
  }
}

const LAST_PORT = 65_535;
/** The system chooses a free port. */
const ANY_PORT = 0;

/** Opens or creates the demo; returns undefined if the database has users but no `demo.json`. */
export async function openDemo(deps: {
  config: Config;
  installation: Pick<Installation, 'sql'>;
  print: (text: string) => void;
}): Promise<Demo | undefined> {
  const { config, installation, print } = deps;
  const path = join(config.dataDir, 'demo.json');
  const existing = await findFile(path, installation.sql);
  if (existing === undefined && (await hasUsers(installation.sql))) {
    print(`There is no ${path}, and the database already has users: no demo is created.`);
    print('New credentials: halcyon user set-password <e-mail>, halcyon client rotate-secret <client_id>');
    return undefined;
  }
  const key = existing?.receiver.encryption_key ?? `whsec_${randomBytes(32).toString('base64')}`;
  let isPlaying = false;
  const options = {
    key,
    headerPrefix: config.naming.webhookHeaderPrefix,
    playedUntilMs: existing === undefined ? Date.now() : 0,
    print: (line: string) => isPlaying || print(line),
  };
  // The first start chooses the port; later starts use it, because webhook and client contain the address.
  const ports =
    existing === undefined
      ? [config.port + 1, config.port + 2, ANY_PORT]
      : [Number(new URL(existing.receiver.url).port)];
  let receiver: DemoReceiver | undefined;
  for (const port of ports) {
    // This process is about to listen on its own two ports.
    const isReserved = port === config.port || port === config.metricsPort;
    if (!isReserved && port <= LAST_PORT) receiver ??= await tryStartReceiver(port, options);
  }
  const port = receiver?.port ?? ports[0];
  if (receiver === undefined)
    print(`Port ${port} of the demo receiver is taken: deliveries to it will fail until it is free.`);
  const url = `http://localhost:${port}/`;
  const stored = existing ?? (await createFile(path, installation.sql, config, { url, encryption_key: key }));
  let file = { ...stored, base_url: config.baseUrl, auth_url: config.authUrl };
  return {
    path,
    file,
    complete: async (send) => {
      try {
        file = await completeFile(file, createDemoApi(send, config));
      } finally {
        // The account and the platform in it work even if the app does not.
        await replace(path, file);
      }
    },
    playDay:
      existing === undefined && receiver !== undefined
        ? async (playWith, isStopping) => {
            const keep = async (completed: DemoFile): Promise<void> => {
              file = completed;
              await write(`${path}.new`, file);
            };
            isPlaying = true;
            await playDemoDay({ file, config, playWith, keep, isStopping }).finally(() => (isPlaying = false));
          }
        : undefined,
    stop: async () => receiver?.stop(),
  };
}
