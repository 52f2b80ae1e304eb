/** Sends mails through the operator's mail server (RFC 5321) in the background, with limited concurrency and retries. */
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { isLoopback } from '#core/loopback.ts';

export type Mail = {
  to: string;
  subject: string;
  /** Plain text, lines separated by \n. */
  text: string;
  /** A notification that no user requested: it has a queue of its own and is sent after requested mails. */
  isNotice?: true;
};

export type Mailer = {
  /** Queues the mail and returns at once, so that the response time does not reveal whether a mail is sent. */
  send: (mail: Mail) => void;
};

/** Returns a mail in the layout of all mails: a greeting and paragraphs, each separated by an empty line. */
export function letter(to: string, subject: string, paragraphs: readonly string[]): Mail {
  return { to, subject, text: `${['Hello,', ...paragraphs].join('\n\n')}\n` };
}

type QueuedMail = { mail: Mail; failures: number };

/** Limit of requested mails, and of notices. */
const QUEUE_MAX = 1_000;

/** `ready`: mails to send now. `delayed`: timers of mails to be retried. */
type Queue = { ready: QueuedMail[]; delayed: Set<NodeJS.Timeout> };

/** Drops the mails to be retried, and returns their number. */
function dropDelayed({ delayed }: Queue): number {
  const { size } = delayed;
  for (const timer of delayed) clearTimeout(timer);
  delayed.clear();
  return size;
}

const MAILS_AT_ONCE = 2;
/** Pauses between the attempts to send a mail; there is one attempt more than pauses. */
const RETRY_DELAYS_MS: readonly number[] = [5_000, 60_000];
const CONNECT_TIMEOUT_MS = 10_000;
const SILENCE_TIMEOUT_MS = 20_000;
const TRY_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 2_000;

/**
 * Returns the connection settings of `SMTP_URL`. Mails contain links that grant access, so TLS is required across a network:
 * `smtps:` from the first byte (port 465), `smtp:` with mandatory STARTTLS (port 587); on loopback `smtp:` is plain.
 */
function serverOf(url: string) {
  const { protocol, hostname, port, username, password } = new URL(url);
  const secure = protocol === 'smtps:';
  const isLocal = isLoopback(hostname);
  return {
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(port) || (secure ? 465 : 587),
    secure,
    requireTLS: !secure && !isLocal,
    ignoreTLS: isLocal,
    ...(username !== '' && { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) } }),
    dnsTimeout: CONNECT_TIMEOUT_MS,
    connectionTimeout: CONNECT_TIMEOUT_MS,
    greetingTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: SILENCE_TIMEOUT_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

/** Imports the library only where mails are configured: 10 MiB and 60 ms of a start. */
const openTransport = async (url: string) => (await import('nodemailer')).createTransport(serverOf(url));

/** Connects with the same TLS settings as for mails, and signs in without sending. Rejects with the reason. */
export async function tryMailServer(url: string): Promise<void> {
  using resources = new DisposableStack();
  const transport = resources.adopt(await openTransport(url), (opened) => opened.close());
  await transport.verify();
}

/**
 * Returns the loggable parts of an error. The server's message is omitted, because filters quote rejected links, which are as
 * sensitive as passwords.
 */
function reasonOf(error: unknown) {
  const { code, responseCode, command } = error as { code?: string; responseCode?: number; command?: string };
  return { code, responseCode, command };
}

/** RFC 5321 §4.2.1: a 5yz reply is permanent. */
const isPermanent = (error: unknown): boolean => ((error as { responseCode?: number }).responseCode ?? 0) >= 500;

const messageOf = ({ to, subject, text }: Mail) => ({
  // An object, so that an address with a comma is not parsed as two.
  to: { name: '', address: to },
  subject,
  text,
  // RFC 3834 §5: prevents automatic replies.
  headers: { 'Auto-Submitted': 'auto-generated' },
});

/**
 * Creates the mailer. Mails are queued in memory and tried three times; mails that fail or exceed the queue limit are logged
 * and dropped. `stop` waits at most two seconds for mails in flight.
 */
export function createMailer(deps: {
  url: string;
  /** The sender; its name is that of the operator's brand. */
  from: { name: string; address: string };
  log: Log;
  retryDelaysMs?: readonly number[];
}): Mailer & Running {
  const { log, from, retryDelaysMs = RETRY_DELAYS_MS } = deps;
  const opening = openTransport(deps.url);
  const requested: Queue = { ready: [], delayed: new Set() };
  // A queue of their own: when many endpoints begin to fail at once, notices must not delay or displace a requested link.
  const notices: Queue = { ready: [], delayed: new Set() };
  const queueOf = ({ isNotice }: Mail): Queue => (isNotice === true ? notices : requested);
  const inFlight = new Set<Promise<void>>();
  const end = new AbortController();
  let isStopping = false;

  const retryLater = (queued: QueuedMail, delayMs: number): void => {
    const { ready, delayed } = queueOf(queued.mail);
    const timer = setTimeout(() => {
      delayed.delete(timer);
      ready.push(queued);
      sendNext();
    }, delayMs);
    delayed.add(timer);
  };
  const send = async (queued: QueuedMail): Promise<void> => {
    const { subject } = queued.mail;
    try {
      const signal = AbortSignal.any([end.signal, AbortSignal.timeout(TRY_TIMEOUT_MS)]);
      await (await opening).sendMail({ ...messageOf(queued.mail), from, signal });
      log.debug({ subject }, 'mail sent');
    } catch (error) {
      const delayMs = isPermanent(error) || isStopping ? undefined : retryDelaysMs[queued.failures];
      if (delayMs === undefined) log.error({ subject, ...reasonOf(error) }, 'sending mail failed');
      else retryLater({ ...queued, failures: queued.failures + 1 }, delayMs);
    }
  };
  const sendNext = (): void => {
    while (inFlight.size < MAILS_AT_ONCE && !end.signal.aborted) {
      const queued = requested.ready.shift() ?? notices.ready.shift();
      if (queued === undefined) return;
      const sending = send(queued).finally(() => {
        inFlight.delete(sending);
        sendNext();
      });
      inFlight.add(sending);
    }
  };

  return {
    send: (mail) => {
      const { ready, delayed } = queueOf(mail);
      if (isStopping || ready.length + delayed.size >= QUEUE_MAX) {
        log.error({ subject: mail.subject }, 'mail dropped: queue full or process stopping');
        return;
      }
      ready.push({ mail, failures: 0 });
      sendNext();
    },
    stop: async () => {
      isStopping = true;
      let lost = dropDelayed(requested) + dropDelayed(notices);
      const late = setTimeout(() => end.abort(), STOP_TIMEOUT_MS);
      while (inFlight.size > 0) await Promise.all(inFlight);
      clearTimeout(late);
      lost += requested.ready.splice(0).length + notices.ready.splice(0).length;
      if (lost > 0) log.error({ mails: lost }, 'mails dropped: process stopping');
      (await opening).close();
    },
  };
}
