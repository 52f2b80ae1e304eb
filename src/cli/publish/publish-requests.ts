/**
 * Opens the publisher of packages/publisher for a command: it retries for a limited time, and its errors name options. Its server, store and
 * client are those of options, the environment or the demo file.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Clock } from '#core/clock.ts';
import { createLoader, createPublisher, PublishError, type Fault, type Publisher } from '#publisher';
import { retryAfterMs } from '#retry-after';
import { readFileOf } from '../command.ts';
import { UserError, EXIT } from '../explain.ts';
import { causeOf, DOCUMENT_BYTES_MAX, objectIn, textOf } from '../session/json-request.ts';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { publicAddress, readSecret } from '#config/env.ts';
import type { Config } from '#config/config.ts';
import type { DemoFile } from '../demo.ts';
import type { Terminal } from '../terminal.ts';

/** What became of a line that is published or loaded. `isKept`: the server has it already, or a newer version. */
type Done = { isKept: boolean; warnings: readonly string[] };
/** The result of a line; the reasons if it is refused, an error if nothing can be sent. */
export type Outcome = Done | readonly string[] | Error;

/** What a command does with the lines: `publish` or `load`. */
export type Task = { command: 'publish' } | { command: 'load'; isDryRun: boolean };

type Options = {
  retryForSeconds: number;
  keepsGoing: boolean;
  clock: Clock;
  random: () => number;
  /** Called once per interruption. */
  warn: (text: string) => void;
  /** Called when the server has not published for `retryForSeconds`; it closes the publisher. */
  onGivenUp: (error: UserError) => void;
};

/** How long an incomplete request waits for the next line of a slow pipe. */
const IDLE_MS = 100;
const REQUEST_MS = 90_000;
/** Idempotency keys are kept for 24 hours. `retryForSeconds` ends a command earlier. */
const DEADLINE_MS = 23 * 3_600_000;
/** Events of the request that is sent, and of the one after it. */
const WAITING_EVENTS = 1_000;

const CREDENTIALS_ADVICE =
  '. Check --url, --client-id and its secret; without them, HALCYON_DATA must be the folder of the running demo';

/** What a request of the publisher is about: a form asks for a token (RFC 6749 §4.4.2), JSON has events. */
type Subject = 'token' | 'events';

/** Watches the requests of a publisher through its `fetch` and its clock, because it repeats them by itself. */
function watchRequests({ clock, random, retryForSeconds, warn, onGivenUp }: Options) {
  const last = { subject: 'token' as Subject, problem: '', requestedMs: 0, startedMs: 0, tries: 0, isRepeated: false };
  const send: typeof fetch = async (input, init) => {
    if (!last.isRepeated) Object.assign(last, { startedMs: clock.monotonicMs(), tries: 0 });
    const subject: Subject = init?.body instanceof URLSearchParams ? 'token' : 'events';
    Object.assign(last, { subject, isRepeated: false, requestedMs: 0 });
    try {
      const response = await fetch(input, init);
      // The body is read here, because a connection can break in the middle of a response.
      const text = await textOf(response, DOCUMENT_BYTES_MAX);
      last.problem = `the server answers ${response.status}`;
      last.requestedMs = retryAfterMs(response.headers.get('Retry-After'), clock.now().getTime());
      return new Response(text === '' ? null : text, response);
    } catch (error) {
      last.problem = `no answer from the server (${causeOf(error)})`;
      throw error;
    }
  };
  const wait = async (ms: number, signal: AbortSignal): Promise<void> => {
    if (signal.aborted) return;
    const { problem, requestedMs, startedMs, tries } = last;
    if (clock.monotonicMs() + ms - startedMs > retryForSeconds * 1000) {
      const requested = requestedMs > 0 ? ` and requests a wait of ${Math.ceil(requestedMs / 1000)} s` : '';
      onGivenUp(new UserError(`${problem}${requested}; --retry-for allows ${retryForSeconds} s`, EXIT.unreachable));
      return;
    }
    if (tries === 0) warn(`${problem}: retrying for ${retryForSeconds} s`);
    Object.assign(last, { tries: tries + 1, isRepeated: true });
    await pause(ms, undefined, { signal }).catch(() => {});
  };
  return { last, send, clock: { nowMs: clock.monotonicMs, wait, random } };
}

const textOfFault = ({ field = '', message }: Fault): string =>
  message.startsWith(field) ? message : `${field}: ${message}`;

/** Returns why a line is not published or loaded. */
function outcomeOf(error: unknown, target: PublishTarget, subject: Subject): Outcome {
  if (!(error instanceof PublishError)) return error as Error;
  const { code, status, faults, message } = error;
  if (code === 'closed') return error;
  if (code === 'refused' || code === 'invalid_event') {
    if (faults.length === 0) return [message];
    return faults.map(textOfFault);
  }
  if (status === undefined) return new UserError(message, EXIT.unreachable);
  if (status < 300) return new UserError(`The server at ${target.url} is no Halcyon: check --url (or HALCYON_URL)`);
  const reason = `the server answers ${status}: ${faults[0]?.message ?? 'no reason'}`;
  return new UserError(
    subject === 'token'
      ? `No token for the client ${target.clientId}: ${reason}${CREDENTIALS_ADVICE}`
      : `Nothing can be sent to store ${target.storeId}: ${reason}`,
  );
}

/** Returns the publisher or loader, and the function that sends a line with it and returns what became of the line. */
export function openPublisher(
  target: PublishTarget,
  options: Options & { task: Task },
): { publisher: Pick<Publisher, 'ready' | 'close'>; send: (text: string) => Promise<Outcome> } {
  const { url, clientId, clientSecret, versionHeader, storeId } = target;
  const { last, send: fetchWatched, clock } = watchRequests(options);
  const settings = {
    baseUrl: url,
    clientId,
    clientSecret,
    versionHeader,
    delayMs: IDLE_MS,
    waitingEvents: WAITING_EVENTS,
    deadlineMs: DEADLINE_MS,
    requestTimeoutMs: REQUEST_MS,
    closeAtRejected: !options.keepsGoing,
    fetch: fetchWatched,
    clock,
  };
  const failed = (error: unknown): Outcome => outcomeOf(error, target, last.subject);
  if (options.task.command === 'load') {
    const loader = createLoader({ ...settings, dryRun: options.task.isDryRun });
    const load = (text: string): Promise<Outcome> =>
      loader
        .load(storeId, text)
        .then(({ result, warnings }) => ({ isKept: result === 'kept', warnings: warnings.map(textOfFault) }), failed);
    return { publisher: loader, send: load };
  }
  const publisher = createPublisher(settings);
  const publish = (text: string): Promise<Outcome> =>
    publisher
      .publish(storeId, text)
      .then(({ warnings = [] }) => ({ isKept: false, warnings: warnings.map(textOfFault) }), failed);
  return { publisher, send: publish };
}

export type ServerOptions = { url?: string; clientId?: string; clientSecretFile?: string };
export type TargetOptions = ServerOptions & { store?: number };

type Environment = Pick<Terminal, 'env' | 'cwd'>;

type PublishServer = {
  /** The address of the API without a trailing slash. */
  url: string;
  clientId: string;
  clientSecret: string;
  versionHeader: string;
};

export type PublishTarget = PublishServer & { storeId: string };

async function readDemo(path: string): Promise<DemoFile | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as DemoFile;
  } catch {
    // The demo file is optional; missing values are reported below.
    return undefined;
  }
}

type Credentials = { client_id?: string | undefined; client_secret?: string | undefined };

/** Reads a file with a secret, or with the output of `client create --json`. */
async function readCredentials(path: string, terminal: Environment): Promise<Credentials> {
  const text = (await readFileOf('--client-secret-file', path, terminal)).toString().trim();
  if (!text.startsWith('{')) return { client_secret: text };
  const { client_id, client_secret } = objectIn(text);
  if (typeof client_id === 'string' && typeof client_secret === 'string') return { client_id, client_secret };
  throw new UserError(`--client-secret-file: ${path} has no client_id and client_secret`);
}

/** Reads the secret from a file or the environment, because arguments are visible to all users of the machine. */
const credentialsOf = async ({ clientSecretFile }: TargetOptions, terminal: Environment): Promise<Credentials> =>
  clientSecretFile === undefined
    ? { client_secret: readSecret(terminal.env, 'HALCYON_CLIENT_SECRET') }
    : readCredentials(clientSecretFile, terminal);

function requireValue(value: string | undefined, missing: string): string {
  if (value !== undefined) return value;
  throw new UserError(`${missing}; there is no default without a running demo (HALCYON_DATA/demo.json)`);
}

/**
 * Returns the server and the client; throws a `UserError` that names a missing value. The demo's secret is only sent to the demo, whose
 * store is `demoStoreId`.
 */
export async function resolveServer(
  options: ServerOptions,
  terminal: Environment,
  config: Config,
): Promise<PublishServer & { demoStoreId: number | undefined }> {
  const { env } = terminal;
  const demo = await readDemo(join(config.dataDir, 'demo.json'));
  const given = options.url ?? env['HALCYON_URL'];
  const url = given ? publicAddress(given, '--url') : (demo?.base_url ?? config.baseUrl);
  const credentials = await credentialsOf(options, terminal);
  const clientId = options.clientId ?? credentials.client_id ?? (env['HALCYON_CLIENT_ID'] || undefined);
  const ofDemo = url === demo?.base_url ? demo : undefined;
  const demoClient = clientId === undefined ? ofDemo?.platform : undefined;
  return {
    url,
    clientId: requireValue(clientId ?? demoClient?.client_id, 'Set the client: --client-id, or HALCYON_CLIENT_ID'),
    clientSecret: requireValue(
      demoClient?.client_secret ?? credentials.client_secret,
      'Set the client secret: --client-secret-file, or HALCYON_CLIENT_SECRET',
    ),
    versionHeader: config.naming.versionHeader,
    demoStoreId: ofDemo?.store_id,
  };
}

/** Returns the server, the client and the store. */
export async function resolveTarget(
  options: TargetOptions,
  terminal: Environment,
  config: Config,
): Promise<PublishTarget> {
  const { demoStoreId, ...server } = await resolveServer(options, terminal, config);
  const storeId = options.store ?? demoStoreId;
  return { ...server, storeId: requireValue(storeId?.toString(), 'Set the store: --store <id>') };
}
