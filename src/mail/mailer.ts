/** Hands mails to the operator's mail server (RFC 5321) in the background, a few at a time, and again where it failed. */
import { createTransport } from 'nodemailer';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { isLoopback } from '#core/loopback.ts';
import type { Mail, Mailer } from './mail.ts';
import { Waiting, type Letter } from './waiting.ts';

const MAILS_AT_ONCE = 2;
/** Between the tries of a mail, so that there is one more than there are pauses. */
const PAUSES_MS: readonly number[] = [5_000, 60_000];
const CONNECT_TIMEOUT_MS = 10_000;
const SILENCE_TIMEOUT_MS = 20_000;
const TRY_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 2_000;

/**
 * The server as `SMTP_URL` names it. What is mailed opens accounts, so it crosses a network under TLS only: `smtps:` from
 * the first byte (port 465), `smtp:` by STARTTLS (port 587) or not at all; on loopback `smtp:` is plain.
 */
const serverOf = (url: string) => {
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
};

/** Connects, by TLS where a mail would, and signs in; hands nothing in. Rejects with the reason. */
export const tryMailServer = async (url: string): Promise<void> => {
  const transport = createTransport(serverOf(url));
  try {
    await transport.verify();
  } finally {
    transport.close();
  }
};

/**
 * What of a failure may stand in the log. Not the server's words: a filter quotes the link that it did not like, and a
 * link is as good as a password.
 */
const reasonOf = (error: unknown) => {
  const { code, responseCode, command } = error as { code?: string; responseCode?: number; command?: string };
  return { code, responseCode, command };
};

/** RFC 5321 §4.2.1: 5yz will be the same the next time. */
const isForGood = (error: unknown): boolean => ((error as { responseCode?: number }).responseCode ?? 0) >= 500;

const messageOf = ({ to, subject, text }: Mail) => ({
  // As an object, so that an address with a comma in it is not read as two.
  to: { name: '', address: to },
  subject,
  text,
  // RFC 3834 §5: so that nobody's absence is answered to us.
  headers: { 'Auto-Submitted': 'auto-generated' },
});

/**
 * A mail is kept in memory alone, and tried three times; what cannot be handed in, and what comes when a thousand of its
 * kind wait already, is logged and dropped. `stop` waits two seconds at most for those that are on their way.
 */
export const createMailer = (deps: {
  url: string;
  from: string;
  log: Log;
  pausesMs?: readonly number[];
}): Mailer & Running => {
  const { log, from, pausesMs = PAUSES_MS } = deps;
  const transport = createTransport(serverOf(deps.url));
  const waiting = new Waiting();
  const underWay = new Set<Promise<void>>();
  const end = new AbortController();
  let isStopping = false;

  const handIn = async (letter: Letter): Promise<void> => {
    const { subject } = letter.mail;
    try {
      const signal = AbortSignal.any([end.signal, AbortSignal.timeout(TRY_TIMEOUT_MS)]);
      await transport.sendMail({ ...messageOf(letter.mail), from, signal });
      log.debug({ subject }, 'a mail was handed in');
    } catch (error) {
      const pauseMs = isForGood(error) || isStopping ? undefined : pausesMs[letter.failures];
      if (pauseMs === undefined) log.error({ subject, ...reasonOf(error) }, 'a mail could not be handed in');
      else waiting.putOff({ ...letter, failures: letter.failures + 1 }, pauseMs, goOn);
    }
  };
  const goOn = (): void => {
    while (underWay.size < MAILS_AT_ONCE && !end.signal.aborted) {
      const letter = waiting.next();
      if (letter === undefined) return;
      const handing = handIn(letter).finally(() => {
        underWay.delete(handing);
        goOn();
      });
      underWay.add(handing);
    }
  };

  return {
    send: (mail) => {
      if (isStopping || !waiting.add(mail)) {
        log.error({ subject: mail.subject }, 'a mail was dropped: too many wait, or the process stops');
        return;
      }
      goOn();
    },
    stop: async () => {
      isStopping = true;
      const paused = waiting.dropPausing();
      const late = setTimeout(() => end.abort(), STOP_TIMEOUT_MS);
      while (underWay.size > 0) await Promise.all(underWay);
      clearTimeout(late);
      const lost = paused + waiting.dropReady();
      if (lost > 0) log.error({ mails: lost }, 'mails were dropped: the process stops');
      transport.close();
    },
  };
};
