/** `halcyon listen`: what happens in the store comes to this computer, as if Halcyon could reach it. */
import { readFile, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Command } from 'commander';
import { systemClock } from '#core/clock.ts';
import { examples } from '../command.ts';
import { UsageError, UserError } from '../explain.ts';
import { openApi, type Api } from '../session/api.ts';
import type { ServerOptions } from '../session/server.ts';
import type { Terminal } from '../terminal.ts';
import { generateKey, hold, removeLeftovers, type Holding, type Wanted } from './pull-webhook.ts';
import { listenTo, type Listening } from './listener.ts';
import { createReport } from './report.ts';

type Options = ServerOptions & {
  forward?: string;
  events?: string;
  resource?: string;
  query?: string;
  keyFile?: string;
  printBody?: true;
};

const listOf = (option: string, text: string): string[] => {
  const list = text.split(',').flatMap((part) => part.trim() || []);
  if (list.length > 0) return list;
  throw new UsageError(`${option} is "${text}": name at least one, or leave it out`);
};

/** A webhook is of one resource, so that there is one for each. */
const wantedOf = ({ events, resource }: Options): Wanted[] => {
  if (events === undefined)
    return listOf('--resource', resource ?? 'transaction').map((event_resource) => ({ event_resource }));
  if (resource !== undefined) throw new UsageError('Say --events or --resource, not both');
  const byResource = Map.groupBy(listOf('--events', events), (event) => event.split('/', 1)[0]);
  return [...byResource.values()].map((some) => ({ events: some }));
};

const addressOf = (forward: string | undefined): URL | undefined => {
  if (forward === undefined) return undefined;
  // As people say it: localhost:3000/hook, and 3000/hook, which would be the address 0.0.11.184.
  const named = /^:?\d{1,5}(?:\/|$)/.test(forward) ? `localhost:${forward.replace(/^:/, '')}` : forward;
  const text = /^https?:\/\//i.test(named) ? named : `http://${named}`;
  // `http:/localhost` and `htp://localhost` would be a path at a host called http or htp.
  const isMistyped = /\s/.test(text) || /^http:\/\/[a-z]+:\//i.test(text);
  if (!isMistyped && URL.canParse(text)) return new URL(text);
  throw new UsageError(`--forward is "${forward}": set it to an address such as http://localhost:3000/hook`);
};

const unusable = (error: unknown): UserError =>
  new UserError(`--key-file: ${(error as Error).message}: name a file that can be read, or be made, with it`);

/** The one in the file, which is made where it is missing; without a file another one each time. */
const keyOf = async (file: string | undefined, cwd: string): Promise<string> => {
  if (file === undefined) return generateKey();
  const path = resolve(cwd, file);
  try {
    const key = (await readFile(path, 'utf8')).trim();
    if (key !== '') return key;
    throw new UserError(`${file} is empty: delete it, and one with a new key is made`);
  } catch (error) {
    if (error instanceof UserError) throw error;
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw unusable(error);
  }
  const key = generateKey();
  await writeFile(path, `${key}\n`, { mode: 0o600, flag: 'wx' }).catch((error: unknown) => {
    throw unusable(error);
  });
  return key;
};

const introduce = (terminal: Terminal, server: string, holdings: readonly Holding[], listening: Listening): void => {
  const { key, address } = listening;
  const forward = address === undefined ? null : address.href;
  const events = holdings.flatMap((holding) => holding.events);
  if (terminal.isJson === true) {
    const webhooks = holdings.map(({ id }) => Number(id));
    terminal.print(JSON.stringify({ listening: { server, webhooks, events, forward, encryption_key: key } }));
    return;
  }
  terminal.print(`Listening at ${server} for ${events.join(', ')}`);
  terminal.print(`  to       ${forward ?? 'nowhere: say --forward http://localhost:3000/hook'}`);
  terminal.print(`  key      ${key}   (what your app verifies with)`);
  terminal.print(`  try it   halcyon trigger ${events[0] ?? 'transaction/created'}\nctrl-C ends it.\n`);
};

/** All that were made, also where a later one could not be. */
const removeAll = async (terminal: Terminal, holdings: readonly Holding[]): Promise<void> => {
  const results = await Promise.allSettled(holdings.map(({ remove }) => remove()));
  if (results.some(({ status }) => status === 'rejected'))
    terminal.warn(
      'The webhook of this listener is still there: the next halcyon listen removes it, or the server in a day',
    );
};

const prepare = async (
  options: Options,
  terminal: Terminal,
  api: Api,
  holdings: Holding[],
  key: string,
): Promise<void> => {
  const removed = await removeLeftovers(api, terminal);
  if (removed > 0) terminal.warn(`Removed ${removed} that a listener left behind which was killed.`);
  for (const wanted of wantedOf(options))
    holdings.push(await hold(api, terminal, { wanted, key, query: options.query }));
};

const listen = async (options: Options, terminal: Terminal): Promise<void> => {
  const address = addressOf(options.forward);
  const key = await keyOf(options.keyFile, terminal.cwd);
  const api = await openApi(options, terminal);
  const end = new AbortController();
  void terminal.untilStopSignal().then(() => end.abort());
  const { now, monotonicMs: nowMs } = systemClock;
  const tell = createReport(terminal, { printsBody: options.printBody === true, now });
  const listening = { api, stop: end.signal, random: Math.random, say: terminal.warn, key, address, tell, nowMs };
  const holdings: Holding[] = [];
  try {
    await prepare(options, terminal, api, holdings, key);
    introduce(terminal, api.server, holdings, listening);
    // The first that fails ends the others, too.
    await Promise.all(holdings.map((holding) => listenTo(listening, holding)));
  } finally {
    end.abort();
    await removeAll(terminal, holdings);
  }
};

const HELP = `
Makes a webhook of its own, which is removed at the end, and needs halcyon login. Each delivery is verified, and forwarded
with the headers and the bytes that Halcyon would have sent; what the app answers stands in the webhook's logs.

Goes on through restarts of the server: what happens meanwhile is held, and nothing is forwarded twice, unless this command
itself is killed between the app's answer and its own.
`;

export const createListenCommand = (terminal: Terminal): Command =>
  new Command('listen')
    .description('have what happens in your store sent to this computer')
    .option('--forward <url>', 'where your app listens; else it is only shown')
    .option('--events <list>', 'such as transaction/created,transaction/refunded')
    .option('--resource <list>', 'all events of these (default: "transaction")')
    .option('--query <query>', 'the shape of what is sent, such as zoom=items')
    .option(
      '--key-file <file>',
      'holds the key that signs, and is made where it is missing; else it is a new one each time',
    )
    .option('--print-body', 'show what is sent, opened where it is encrypted')
    .option('--server <address>', 'of the API; else HALCYON_SERVER, else where you are logged in')
    .addHelpText('after', HELP)
    .addHelpText(
      'after',
      examples(
        'halcyon listen --forward http://localhost:3000/hook',
        'halcyon listen --events customer/created --print-body',
      ),
    )
    .action((options: Options) => listen(options, terminal));
