/** `halcyon trigger`: a made-up event for whoever listens, or for one webhook, and what came back. */
import { setTimeout as pause } from 'node:timers/promises';
import { Command } from 'commander';
import { eventsOf, resourceOfEvent, resourceTypes } from '#catalog/catalog.ts';
import { systemClock } from '#core/clock.ts';
import { answer, examples } from './command.ts';
import { UsageError, UserError } from './explain.ts';
import { follow, openApi, type Api } from './session/api.ts';
import { embeddedIn, linkOf, type Json } from './session/exchange.ts';
import type { ServerOptions } from './session/server.ts';
import type { Terminal } from './terminal.ts';

type Options = ServerOptions & { webhook?: string };

/** `response_code` is null where nothing answered, or where it was only looked at. */
type Outcome = {
  webhook_id: unknown;
  name: unknown;
  status: 'pending' | 'successful' | 'failed';
  response_code: number | null;
  /** Why it has not arrived, in a sentence. */
  reason: string | null;
};

/** An app has 30 s to answer, and the listener is asked soon after. */
const PATIENCE_MS = 40_000;
const LOOK_MS = 250;
/** Of a store all there may be. */
const WEBHOOKS_MAX = 300;

const requireEvent = (event: string): void => {
  if (resourceOfEvent(event) !== undefined) return;
  const all = resourceTypes.flatMap(eventsOf).map((each) => `  ${each}`);
  throw new UsageError(`There is no event ${event}. There are:\n${all.join('\n')}`);
};

const named = async (api: Api, id: string): Promise<Json[]> => {
  if (!/^[1-9][0-9]{0,15}$/.test(id)) throw new UsageError('--webhook must be an id, a positive whole number');
  const webhooks = follow(await api.store(), 'webhooks', api.server);
  const page = await api.read(`${webhooks}?id=${id}`);
  const found = embeddedIn(page, 'webhooks');
  if (found.length === 0) throw new UserError(`--webhook: the store has no webhook ${id}`);
  return found;
};

/** Those that hold what happens for a listener, and hold this event. */
const listening = async (api: Api, event: string): Promise<Json[]> => {
  const webhooks = follow(await api.store(), 'webhooks', api.server);
  const page = await api.read(`${webhooks}?is_held=1&limit=${WEBHOOKS_MAX}`);
  const found = embeddedIn(page, 'webhooks').filter(({ events }) => (events as string[]).includes(event));
  if (found.length > 0) return found;
  throw new UserError(
    `Nobody listens to ${event}: run halcyon listen --events ${event} in another terminal, or say --webhook <id>`,
  );
};

/** What became of a delivery that a listener fetches; still `pending` where patience is over. */
const settled = async (api: Api, delivery: Json): Promise<Json> => {
  const address = linkOf(delivery, 'self');
  const untilMs = systemClock.monotonicMs() + PATIENCE_MS;
  if (address === undefined) return delivery;
  for (let now = delivery; ; now = await api.read(address)) {
    if (now['status'] !== 'pending' || systemClock.monotonicMs() > untilMs) return now;
    await pause(LOOK_MS);
  }
};

const trigger = async (api: Api, webhook: Json, event: string): Promise<Outcome> => {
  const { id, name } = webhook;
  const made = await api.read(follow(webhook, 'test', api.server), { method: 'POST', body: { event } });
  // A delivery of a held webhook has a status; of any other it is the attempt that was made.
  const isHeld = made['status'] !== undefined;
  const end = isHeld ? await settled(api, made) : made;
  const [attempt = end] = embeddedIn(end, 'logs');
  const { response_code: code, outcome, reason } = attempt;
  const status = outcome === undefined ? 'pending' : outcome === 'delivered' ? 'successful' : 'failed';
  return {
    webhook_id: id,
    name,
    status,
    response_code: typeof code === 'number' ? code : null,
    reason: typeof reason === 'string' ? reason : null,
  };
};

const sentenceOf = ({ webhook_id: id, name, status, response_code: code, reason }: Outcome): string => {
  const who = `webhook ${String(id)} (${String(name)})`;
  if (status === 'pending') return `${who}: nobody has fetched it yet; is its listener still there?`;
  if (code !== null) return `${who}: your app answered ${code}`;
  return status === 'successful' ? `${who}: it has arrived` : `${who}: ${reason ?? 'no answer'}`;
};

const run = async (event: string, options: Options, terminal: Terminal): Promise<void> => {
  requireEvent(event);
  const api = await openApi(options, terminal);
  const webhooks = options.webhook === undefined ? await listening(api, event) : await named(api, options.webhook);
  const outcomes = await Promise.all(webhooks.map((webhook) => trigger(api, webhook, event)));
  if (terminal.isJson === true) answer(terminal, outcomes);
  else for (const outcome of outcomes) terminal.print(`${event} → ${sentenceOf(outcome)}`);
  const failed = outcomes.filter(({ status }) => status !== 'successful');
  if (failed.length > 0) throw new UserError(`${failed.length} of ${outcomes.length} did not take it`);
};

const HELP = `
Sends a made-up resource with is_sample: true in it, under the name that you say, to every running halcyon listen of your
store that wants it. Nothing else in the store changes.`;

export const createTriggerCommand = (terminal: Terminal): Command =>
  new Command('trigger')
    .description('send a made-up event to whoever listens, and say what came back')
    .argument('<event>', 'such as transaction/created; an unknown one lists all')
    .option('--webhook <id>', 'to this webhook, wherever it leads')
    .option('--server <address>', 'of the API; else HALCYON_SERVER, else where you are logged in')
    .addHelpText('after', HELP)
    .addHelpText(
      'after',
      examples('halcyon trigger transaction/created', 'halcyon trigger customer/created --webhook 4711'),
    )
    .action((event: string, options: Options) => run(event, options, terminal));
