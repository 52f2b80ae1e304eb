/** `halcyon listen`: forwards the events of a store to this computer, which Halcyon cannot reach. */
import { readFile, writeFile, mkdir, readdir, rm } from 'node:fs/promises';
import { resolve, join } from 'node:path';
import { systemClock } from '#core/clock.ts';
import { CliCommand, printResult } from '../command.ts';
import { UsageError, UserError } from '../explain.ts';
import { openApi, SERVER, type Api, follow, type ServerOptions } from '../session/api-session.ts';
import type { Terminal } from '../terminal.ts';
import { listenTo, type Listening, createReport } from './listener.ts';
import { randomBytes, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { settingsFolder } from '../session/credentials.ts';
import { linkOf, type Json } from '../session/json-request.ts';

// Creates and removes the pull webhooks of a listener.

/** All events of a resource, or some of them. */
type Selection = { event_resource: string } | { events: readonly string[] };

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

function generateKey(): string {
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
async function removeOrphans(api: Api, terminal: Terminal): Promise<number> {
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
async function createPullWebhook(
  api: Api,
  terminal: Terminal,
  { selection, key, query, filter }: WebhookOptions,
): Promise<PullWebhook> {
  const webhooks = await api.webhooks();
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

// The command.

type Options = ServerOptions & {
  forward?: string;
  events?: string;
  resource?: string;
  query?: string;
  filter?: string;
  keyFile?: string;
  printBody?: true;
};

function listOf(option: string, text: string): string[] {
  const list = text.split(',').flatMap((part) => part.trim() || []);
  if (list.length > 0) return list;
  throw new UsageError(`${option} is "${text}": name at least one, or omit it`);
}

/** Returns the selection of each webhook; a webhook has one resource. */
function selectionsOf({ events, resource }: Options): Selection[] {
  if (events === undefined)
    return listOf('--resource', resource ?? 'transaction').map((event_resource) => ({ event_resource }));
  if (resource !== undefined) throw new UsageError('Use --events or --resource, not both');
  const byResource = Map.groupBy(listOf('--events', events), (event) => event.split('/', 1)[0]);
  return [...byResource.values()].map((names) => ({ events: names }));
}

function addressOf(forward: string | undefined): URL | undefined {
  if (forward === undefined) return undefined;
  // Accepts localhost:3000/hook, and 3000/hook, which would otherwise be the address 0.0.11.184.
  const named = /^:?\d{1,5}(?:\/|$)/.test(forward) ? `localhost:${forward.replace(/^:/, '')}` : forward;
  const text = /^https?:\/\//i.test(named) ? named : `http://${named}`;
  // `http:/localhost` and `htp://localhost` would be parsed as a host named http or htp.
  const isMistyped = /\s/.test(text) || /^http:\/\/[a-z]+:\//i.test(text);
  if (!isMistyped && URL.canParse(text)) return new URL(text);
  throw new UsageError(`--forward is "${forward}": set it to an address such as http://localhost:3000/hook`);
}

const unusable = (error: unknown): UserError =>
  new UserError(`--key-file: ${(error as Error).message}: choose a file that can be read or created`);

/** Returns the key in the file, created if it is missing; without a file a new key. */
async function keyOf(file: string | undefined, cwd: string): Promise<string> {
  if (file === undefined) return generateKey();
  const path = resolve(cwd, file);
  try {
    const key = (await readFile(path, 'utf8')).trim();
    if (key !== '') return key;
    throw new UserError(`${file} is empty: delete it to generate a new key`);
  } catch (error) {
    if (error instanceof UserError) throw error;
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw unusable(error);
  }
  const key = generateKey();
  await writeFile(path, `${key}\n`, { mode: 0o600, flag: 'wx' }).catch((error: unknown) => {
    throw unusable(error);
  });
  return key;
}

function printIntroduction(
  terminal: Terminal,
  server: string,
  pullWebhooks: readonly PullWebhook[],
  { key, address }: Listening,
  { filter }: Options,
): void {
  const forward = address === undefined ? null : address.href;
  const events = pullWebhooks.flatMap((webhook) => webhook.events);
  const webhooks = pullWebhooks.map(({ id }) => Number(id));
  const listening = { server, webhooks, events, forward, filter: filter ?? null, encryption_key: key };
  printResult(terminal, { listening }, [
    `Listening at ${server} for ${events.join(', ')}`,
    `  to       ${forward ?? 'nowhere; to forward: --forward http://localhost:3000/hook'}`,
    ...(filter === undefined ? [] : [`  filter   ${filter}`]),
    `  key      ${key}   (what your app verifies with)`,
    `  try it   halcyon trigger ${events[0] ?? 'transaction/created'}\nctrl-C ends it.\n`,
  ]);
}

async function removeAll(terminal: Terminal, pullWebhooks: readonly PullWebhook[]): Promise<void> {
  const results = await Promise.allSettled(pullWebhooks.map(({ remove }) => remove()));
  if (results.some(({ status }) => status === 'rejected'))
    terminal.warn(
      'The webhook of this listener could not be removed: the next halcyon listen removes it, or the server in a day',
    );
}

async function prepare(
  options: Options,
  terminal: Terminal,
  api: Api,
  pullWebhooks: PullWebhook[],
  key: string,
): Promise<void> {
  const removed = await removeOrphans(api, terminal);
  if (removed > 0) terminal.warn(`Removed ${removed === 1 ? '1 webhook' : `${removed} webhooks`} of killed listeners.`);
  for (const selection of selectionsOf(options))
    pullWebhooks.push(
      await createPullWebhook(api, terminal, { selection, key, query: options.query, filter: options.filter }),
    );
}

async function listen(options: Options, terminal: Terminal): Promise<void> {
  const address = addressOf(options.forward);
  const key = await keyOf(options.keyFile, terminal.cwd);
  const api = await openApi(options, terminal);
  const end = new AbortController();
  void terminal.untilStopSignal().then(() => end.abort());
  const { now, monotonicMs: nowMs } = systemClock;
  const report = createReport(terminal, { printsBody: options.printBody === true, now });
  const listening = { api, stop: end.signal, random: Math.random, warn: terminal.warn, key, address, report, nowMs };
  const pullWebhooks: PullWebhook[] = [];
  try {
    await prepare(options, terminal, api, pullWebhooks, key);
    printIntroduction(terminal, api.server, pullWebhooks, listening, options);
    // The first failure ends the others.
    await Promise.all(pullWebhooks.map((webhook) => listenTo(listening, webhook)));
  } finally {
    end.abort();
    await removeAll(terminal, pullWebhooks);
  }
}

const HELP = `
Requires halcyon login. Creates a temporary webhook, which is removed at the end. Each delivery is verified and forwarded
with the headers and bytes that Halcyon would have sent; the app's response is in the webhook's logs.

Reconnects after restarts of the server: events that occur meanwhile are kept, and nothing is forwarded twice unless this
command is killed after the app has answered and before the server has the result.
`;

export function createListenCommand(terminal: Terminal): CliCommand {
  return new CliCommand('listen')
    .description('forward the events of your store to this computer')
    .option('--forward <url>', 'the URL of your app; default: show deliveries only')
    .option('--events <list>', 'events to receive, such as transaction/created,transaction/refunded')
    .option('--resource <list>', 'resources to receive all events of (default: "transaction")')
    .option('--query <query>', 'the query of the webhook, such as zoom=items')
    .option(
      '--filter <conditions>',
      'the filter of the webhook, such as "total_order:greaterthan=100"; default: every event',
    )
    .option('--key-file <file>', 'the signing key, created if the file is missing; default: a new key for each run')
    .option('--print-body', 'show the bodies, decrypted if necessary')
    .option(...SERVER)
    .addHelpText('after', HELP)
    .examples(
      'halcyon listen --forward http://localhost:3000/hook',
      'halcyon listen --events customer/created --print-body',
      "halcyon listen --filter 'total_order:greaterthan=100&currency_code=EUR'",
    )
    .action((options: Options) => listen(options, terminal));
}
