/** Creates and removes the pull webhooks of a listener. */
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { UserError } from '../explain.ts';
import { follow, type Api } from '../session/api-session.ts';
import { settingsFolder } from '../session/credentials.ts';
import { linkOf, type Json } from '../session/json-request.ts';
import type { Terminal } from '../terminal.ts';

/** All events of a resource, or some of them. */
export type Selection = { event_resource: string } | { events: readonly string[] };

export type PullWebhook = {
  id: string;
  events: readonly string[];
  /** The address of the event stream. */
  stream: string;
  remove: () => Promise<void>;
};

type WebhookOptions = {
  selection: Selection;
  key: string;
  query: string | undefined;
  filter: string | undefined;
};

/** The record of a running listener, by which the next one finds webhooks of killed listeners. */
type ListenerRecord = { server: string; webhook: string; host: string; process_id: number };

const NAME_LENGTH_MAX = 255;
/** Short, because ctrl-C must not wait for an unavailable server, which deletes an unused pull webhook after a day. */
const REMOVAL_MS = 5_000;

const folderOf = (terminal: Terminal): string => join(settingsFolder(terminal), 'listening');

export function generateKey(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

async function removeWebhook(api: Api, address: string): Promise<boolean> {
  const { status } = await api.request(address, { method: 'DELETE', signal: AbortSignal.timeout(REMOVAL_MS) });
  return status === 204 || status === 404;
}

async function readRecord(path: string): Promise<ListenerRecord | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as ListenerRecord;
  } catch {
    return undefined;
  }
}

/**
 * Removes the webhooks of killed listeners on this computer, and returns their number. They are identified by process id and host
 * name, because webhooks of running listeners have the same name and several computers may share a settings folder.
 */
export async function removeOrphans(api: Api, terminal: Terminal): Promise<number> {
  const folder = folderOf(terminal);
  let removed = 0;
  for (const name of await readdir(folder).catch(() => [])) {
    const path = join(folder, name);
    const record = await readRecord(path);
    const isLocal = record?.server === api.server && record.host === hostname();
    if (!isLocal || terminal.isRunning(record.process_id)) continue;
    if (!(await removeWebhook(api, record.webhook))) continue;
    await rm(path, { force: true });
    removed += 1;
  }
  return removed;
}

/** Returns the path. Its name is not the id of the webhook, because webhooks of two servers may have the same one. */
async function writeRecord(terminal: Terminal, record: ListenerRecord): Promise<string> {
  const folder = folderOf(terminal);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, `${randomUUID()}.json`);
  await writeFile(path, JSON.stringify(record), { mode: 0o600, flag: 'wx' });
  return path;
}

function idOf({ id }: Json, server: string): string {
  if (Number.isSafeInteger(id) && Number(id) > 0) return String(id);
  throw new UserError(`What ${server} has created is no webhook of Halcyon: check --server`);
}

/** Creates a pull webhook and its listener record. */
export async function createPullWebhook(
  api: Api,
  terminal: Terminal,
  { selection, key, query, filter }: WebhookOptions,
): Promise<PullWebhook> {
  const webhooks = follow(await api.store(), 'webhooks', api.server);
  const document: Json = await api.read(webhooks, {
    method: 'POST',
    headers: { 'Idempotency-Key': randomUUID() },
    body: {
      name: `halcyon listen on ${hostname()}`.slice(0, NAME_LENGTH_MAX),
      format: 'json',
      is_held: '1',
      encryption_key: key,
      ...selection,
      ...(query === undefined ? {} : { query }),
      ...(filter === undefined ? {} : { filter }),
    },
  });
  const { server } = api;
  const id = idOf(document, server);
  const address = linkOf(document, 'self') ?? `${webhooks}/${id}`;
  const path = await writeRecord(terminal, {
    server,
    webhook: address,
    host: hostname(),
    process_id: terminal.processId,
  });
  return {
    id,
    events: document['events'] as string[],
    stream: follow(document, 'listen', server),
    remove: async () => {
      // One retry, because a stopping server closes connections.
      const isGone = await removeWebhook(api, address).catch(() => pause(200).then(() => removeWebhook(api, address)));
      if (isGone) await rm(path, { force: true });
    },
  };
}
