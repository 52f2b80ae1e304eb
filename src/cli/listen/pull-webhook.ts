/** The webhooks of a listener, which hold for it what happens: made when it begins, removed when it ends. */
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { follow, type Api } from '../session/api.ts';
import { settingsFolder } from '../session/credentials.ts';
import { linkOf, type Json } from '../session/exchange.ts';
import type { Terminal } from '../terminal.ts';

/** All events of a resource, or some of them. */
export type Wanted = { event_resource: string } | { events: readonly string[] };

export type Holding = {
  id: string;
  events: readonly string[];
  /** Its address. */
  stream: string;
  remove: () => Promise<void>;
};

/** What a listener on this computer has, for the next one to see whether it still runs. */
type Mark = { server: string; webhook: string; host: string; process_id: number };

const NAME_LENGTH_MAX = 255;
/** Who presses ctrl-C waits for no server that is away: what is left there ends a day after it was last fetched from. */
const REMOVAL_MS = 5_000;

const folderOf = (terminal: Terminal): string => join(settingsFolder(terminal), 'listening');

export const generateKey = (): string => `whsec_${randomBytes(32).toString('base64')}`;

const removeWebhook = async (api: Api, address: string): Promise<boolean> => {
  const late = AbortSignal.timeout(REMOVAL_MS);
  const { status } = await api.ask(address, { method: 'DELETE', signal: late });
  return status === 204 || status === 404;
};

const readMark = async (path: string): Promise<Mark | undefined> => {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Mark;
  } catch {
    return undefined;
  }
};

/**
 * Removes what listeners on this computer left behind that were killed, and answers how much it was. By the process and not
 * by the name, which another listener that runs here has as well; folders of settings that several computers share tell
 * them apart by their names.
 */
export const removeLeftovers = async (api: Api, terminal: Terminal): Promise<number> => {
  const folder = folderOf(terminal);
  let removed = 0;
  for (const name of await readdir(folder).catch(() => [])) {
    const path = join(folder, name);
    const mark = await readMark(path);
    const isOurs = mark?.server === api.server && mark.host === hostname();
    if (!isOurs || terminal.isRunning(mark.process_id)) continue;
    if (!(await removeWebhook(api, mark.webhook))) continue;
    await rm(path, { force: true });
    removed += 1;
  }
  return removed;
};

const leaveMark = async (terminal: Terminal, id: string, mark: Mark): Promise<string> => {
  const folder = folderOf(terminal);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, `${id}.json`);
  await writeFile(path, JSON.stringify(mark), { mode: 0o600 });
  return path;
};

/** `query` is the shape of what is sent. */
export const hold = async (
  api: Api,
  terminal: Terminal,
  { wanted, key, query }: { wanted: Wanted; key: string; query: string | undefined },
): Promise<Holding> => {
  const webhooks = follow(await api.store(), 'webhooks', api.server);
  const document: Json = await api.read(webhooks, {
    method: 'POST',
    headers: { 'Idempotency-Key': randomUUID() },
    body: {
      name: `halcyon listen on ${hostname()}`.slice(0, NAME_LENGTH_MAX),
      format: 'json',
      is_held: '1',
      encryption_key: key,
      ...wanted,
      ...(query === undefined ? {} : { query }),
    },
  });
  const id = String(document['id']);
  const address = linkOf(document, 'self') ?? `${webhooks}/${id}`;
  const { server } = api;
  const path = await leaveMark(terminal, id, {
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
      // A server that is just stopping closes connections under whoever asks.
      const isGone = await removeWebhook(api, address).catch(() => pause(200).then(() => removeWebhook(api, address)));
      if (isGone) await rm(path, { force: true });
    },
  };
};
