/**
 * The demo: on the first start of an embedded database a user, a store, an app with tokens, the platform's client and a
 * webhook to the built-in receiver; `demo.json` tells all of it to a newcomer or a script.
 */
import { randomBytes } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hasUsers } from '#identity/accounts/accounts-sql.ts';
import { createPasswords } from '#identity/accounts/passwords.ts';
import { createUser } from '#identity/accounts/users.ts';
import { OPERATOR, type Changelog } from '#changelog/changelog.ts';
import { unreadable } from '#db/data-folder.ts';
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import type { Running } from '#core/lifecycle.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { grantStoreAccess } from '#identity/oauth/issue.ts';
import { findStore } from '#stores/stores-sql.ts';
import { letIn, openStore } from '#stores/audit.ts';
import { shardOf } from '#core/ids.ts';
import type { Config } from '#config/config.ts';
import { openInternalEvents } from '#server/publishing.ts';
import { completeFile } from './demo-api.ts';
import { startDemoReceiver, type DemoReceiver } from './demo-receiver/start.ts';
import type { Installation } from './installation.ts';

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
  /** The webhook that points at the receiver; absent until it is made, which needs the API to be up. */
  webhook_id?: number;
};

export type Demo = Running & {
  path: string;
  file: DemoFile;
  /** Needs the API: makes the webhook, once, and a fresh access token, since the one of an earlier start has expired. */
  complete: () => Promise<void>;
};

const EMAIL = 'owner@example.com';

const read = async (path: string): Promise<DemoFile | undefined> => {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as DemoFile;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw unreadable(path, error, 'Bring back the file that was there, or move it away to start without a demo');
  }
};

const write = (path: string, file: DemoFile): Promise<void> =>
  writeFile(path, `${JSON.stringify(file, null, 2)}\n`, { mode: 0o600 });

const replace = async (path: string, file: DemoFile): Promise<void> => {
  await write(`${path}.new`, file);
  await rename(`${path}.new`, path);
};

const make = async (
  tx: Tx,
  config: Config,
  changelog: Changelog,
  receiver: DemoFile['receiver'],
): Promise<DemoFile> => {
  const now = new Date();
  const passwords = createPasswords({ hashesAtOnce: 1 });
  const user = { email: EMAIL, password: randomBytes(9).toString('base64url') };
  const { id: userId } = await createUser(tx, passwords, { ...user, now });
  const store = { name: 'Demo Store', domain: 'demo.example.com', email: EMAIL, timeZone: 'UTC' };
  const by = { changelog, actor: OPERATOR, now };
  const { id: storeId } = await openStore(tx, store, by);
  await letIn(tx, { storeId, userId, role: 'owner' }, by);
  const redirectUri = new URL('/callback', receiver.url).href;
  const app = { name: 'Demo App', company: 'Example Apps', redirectUris: [redirectUri], trusted: false };
  const client = await createClient(tx, { ...app, now });
  const platform = await createClient(tx, { name: 'Demo Platform', redirectUris: [], trusted: true, now });
  const { accessTokenLifetimeSeconds, refreshTokenIdleDays } = config.oauth;
  const tokens = await grantStoreAccess(tx, {
    clientId: client.client_id,
    userId,
    storeId,
    changelog,
    now,
    accessTokenLifetimeSeconds,
    refreshTokenIdleDays,
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
};

/** What an earlier start made. A file that has not got its name counts when its store was committed. */
const findFile = async (path: string, sql: Sql): Promise<DemoFile | undefined> => {
  const present = await read(path);
  if (present !== undefined) return present;
  const half = await read(`${path}.new`).catch(() => undefined);
  if (half === undefined || (await findStore(sql, shardOf(half.store_id), half.store_id)) === undefined)
    return undefined;
  await rename(`${path}.new`, path);
  return half;
};

/** The file is written before the commit and gets its name after it: a crash at any moment leaves both or neither. */
const makeFile = async (path: string, sql: Sql, config: Config, receiver: DemoFile['receiver']): Promise<DemoFile> => {
  const { changelog } = openInternalEvents(config);
  const file = await transaction(sql, async (tx) => {
    const made = await make(tx, config, changelog, receiver);
    await write(`${path}.new`, made);
    return made;
  });
  await rename(`${path}.new`, path);
  return file;
};

/** Undefined where the port is taken. */
const receiverOn = async (port: number, options: Omit<Parameters<typeof startDemoReceiver>[0], 'port'>) => {
  try {
    return await startDemoReceiver({ ...options, port });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    return undefined;
  }
};

const LAST_PORT = 65_535;
/** Whichever the system gives. */
const ANY = 0;

/** Undefined where the database has users and `demo.json` is gone: the data stay as they are, and have no demo. */
export const openDemo = async (deps: {
  config: Config;
  installation: Installation;
  print: (text: string) => void;
}): Promise<Demo | undefined> => {
  const { config, installation, print } = deps;
  const path = join(config.dataDir, 'demo.json');
  const known = await findFile(path, installation.sql);
  if (known === undefined && (await hasUsers(installation.sql))) {
    print(`There is no ${path}, and the database has users already: it stays without a demo.`);
    print('New credentials: halcyon user set-password <e-mail>, halcyon client rotate-secret <client_id>');
    return undefined;
  }
  const key = known?.receiver.encryption_key ?? `whsec_${randomBytes(32).toString('base64')}`;
  const options = { key, headerPrefix: config.naming.webhookHeaderPrefix, print };
  // The first start chooses; afterwards the address stands in the webhook and in the client.
  const ports =
    known === undefined ? [config.port + 1, config.port + 2, ANY] : [Number(new URL(known.receiver.url).port)];
  let receiver: DemoReceiver | undefined;
  for (const port of ports) {
    // Nobody listens on our own two yet, and this process is about to.
    const isOurs = port === config.port || port === config.metricsPort;
    if (!isOurs && port <= LAST_PORT) receiver ??= await receiverOn(port, options);
  }
  const port = receiver?.port ?? ports[0];
  if (receiver === undefined)
    print(`Port ${port} of the demo receiver is taken: deliveries to it will fail until it is free.`);
  const url = `http://localhost:${port}/`;
  const made = known ?? (await makeFile(path, installation.sql, config, { url, encryption_key: key }));
  const file = { ...made, base_url: config.baseUrl, auth_url: config.authUrl };
  return {
    path,
    file,
    complete: async () => replace(path, await completeFile(file, config)),
    stop: async () => receiver?.stop(),
  };
};
