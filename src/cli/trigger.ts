/** `halcyon trigger`: sends a sample event to running listeners, or to one webhook, and reports the response. */
import { setTimeout as pause } from 'node:timers/promises';
import { resourceOfEvent } from '#catalog/catalog.ts';
import { systemClock } from '#core/clock.ts';
import { printResult, CliCommand } from './command.ts';
import { UsageError, UserError } from './explain.ts';
import { follow, openApi, SERVER, type Api, type ServerOptions } from './session/api-session.ts';
import { embeddedIn, linkOf, type Json } from './session/json-request.ts';
import type { Terminal } from './terminal.ts';

type Options = ServerOptions & { webhook?: number };

/** `response_code` is null without a response, or if the listener does not forward. */
type Outcome = {
  webhook_id: unknown;
  name: unknown;
  status: 'pending' | 'successful' | 'failed';
  response_code: number | null;
  /** The reason of a failure, a sentence. */
  reason: string | null;
};

/** An app has 30 s to answer, and the listener reports the result soon after. */
const TIMEOUT_MS = 40_000;
const POLL_MS = 250;
/** The maximum of webhooks per store. */
const WEBHOOKS_MAX = 300;

/** Throws a `UsageError` for an event that is not in the catalogue of the server, whose operator may have declared more. */
async function requireEvent(api: Api, event: string): Promise<void> {
  if (resourceOfEvent(event) !== undefined) return;
  const webhooks = await api.read(await api.webhooks());
  const catalogue = await api.read(follow(webhooks, 'event_types', api.server));
  const all = embeddedIn(catalogue, 'event_types').map(({ event: name }) => String(name));
  if (all.includes(event)) return;
  throw new UsageError(`There is no event ${event}. There are:\n${all.map((each) => `  ${each}`).join('\n')}`);
}

async function findWebhook(api: Api, id: number): Promise<Json[]> {
  const page = await api.read(`${await api.webhooks()}?id=${id}`);
  const found = embeddedIn(page, 'webhooks');
  if (found.length === 0) throw new UserError(`--webhook: the store has no webhook ${id}`);
  return found;
}

async function findPullWebhooks(api: Api, event: string): Promise<Json[]> {
  const page = await api.read(`${await api.webhooks()}?is_held=1&limit=${WEBHOOKS_MAX}`);
  const found = embeddedIn(page, 'webhooks').filter(({ events }) => (events as string[]).includes(event));
  if (found.length > 0) return found;
  throw new UserError(
    `No listener receives ${event}: run halcyon listen --events ${event} in another terminal, or use --webhook <id>`,
  );
}

/** Polls a delivery of a pull webhook until it ends; returns it as `pending` after the time-out. */
async function untilEnded(api: Api, delivery: Json): Promise<Json> {
  const address = linkOf(delivery, 'self');
  const untilMs = systemClock.monotonicMs() + TIMEOUT_MS;
  if (address === undefined) return delivery;
  for (let current = delivery; ; current = await api.read(address)) {
    if (current['status'] !== 'pending' || systemClock.monotonicMs() > untilMs) return current;
    await pause(POLL_MS);
  }
}

async function trigger(api: Api, webhook: Json, event: string): Promise<Outcome> {
  const { id, name } = webhook;
  const sent = await api.read(follow(webhook, 'test', api.server), { method: 'POST', body: { event } });
  // A pull webhook returns a delivery, which has a status; any other webhook returns the attempt.
  const isPull = sent['status'] !== undefined;
  const result = isPull ? await untilEnded(api, sent) : sent;
  const [attempt = result] = embeddedIn(result, 'logs');
  const { response_code: code, outcome, reason } = attempt;
  const status = outcome === undefined ? 'pending' : outcome === 'delivered' ? 'successful' : 'failed';
  return {
    webhook_id: id,
    name,
    status,
    response_code: typeof code === 'number' ? code : null,
    reason: typeof reason === 'string' ? reason : null,
  };
}

function sentenceOf({ webhook_id: id, name, status, response_code: code, reason }: Outcome): string {
  const target = `webhook ${String(id)} (${String(name)})`;
  if (status === 'pending') return `${target}: not fetched yet; check that its listener is running`;
  if (code !== null) return `${target}: your app answered ${code}`;
  return status === 'successful' ? `${target}: delivered` : `${target}: ${reason ?? 'no response'}`;
}

async function run(event: string, options: Options, terminal: Terminal): Promise<void> {
  const api = await openApi(options, terminal);
  await requireEvent(api, event);
  const webhooks =
    options.webhook === undefined ? await findPullWebhooks(api, event) : await findWebhook(api, options.webhook);
  const outcomes = await Promise.all(webhooks.map((webhook) => trigger(api, webhook, event)));
  const lines = outcomes.map((outcome) => `${event} → ${sentenceOf(outcome)}`);
  printResult(terminal, outcomes, lines);
  const failed = outcomes.filter(({ status }) => status !== 'successful');
  if (failed.length > 0) throw new UserError(`${failed.length} of ${outcomes.length} deliveries failed`);
}

const HELP = `
Sends a sample event, a resource with is_sample: true, to every running halcyon listen of your store that receives the
event. Nothing else in the store changes.`;

export function createTriggerCommand(terminal: Terminal): CliCommand {
  return new CliCommand('trigger')
    .description('send a sample event to running listeners and report the response')
    .argument('<event>', 'such as transaction/created; an unknown one lists all')
    .id('--webhook <id>', 'send to this webhook instead of listeners')
    .option(...SERVER)
    .addHelpText('after', HELP)
    .examples('halcyon trigger transaction/created', 'halcyon trigger customer/created --webhook 4711')
    .action((event: string, options: Options) => run(event, options, terminal));
}
