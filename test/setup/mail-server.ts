/** A real mail server on loopback that stores mails, or rejects them as a test specifies. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';

const PATIENCE_MS = 10_000;

/** The subjects of mails that follow from any sign-in, new password and approval. */
export const SECURITY_MAILS = /^(?:New sign-in to|Your password was changed|An app was connected)/;

export type ReceivedMail = { from: string; to: string[]; headers: string; subject: string; text: string };

export type MailServer = {
  url: string;
  /** Resolves with the next mail that was not returned yet. */
  next: () => Promise<ReceivedMail>;
  /** The number of submitted mails, and the accepted ones that were not returned yet. */
  tries: () => number;
  unread: () => readonly ReceivedMail[];
  stop: () => Promise<void>;
};

/** Decodes quoted-printable (RFC 2045 §6.7), as far as short texts need it. */
const decodeQuotedPrintable = (text: string): string =>
  Buffer.from(
    text
      .replaceAll('=\r\n', '')
      .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
    'latin1',
  ).toString();

/** Decodes encoded words (RFC 2047) in encoding Q only: `=?UTF-8?Q?…?=`; adjacent ones form one text. */
const decodeWords = (text: string): string =>
  text
    .replaceAll(/\?=\s+=\?utf-8\?q\?/gi, '')
    .replaceAll(/=\?utf-8\?q\?([^?]*)\?=/gi, (_, word: string) => decodeQuotedPrintable(word.replaceAll('_', ' ')));

function read(message: string): Pick<ReceivedMail, 'headers' | 'subject' | 'text'> {
  const at = message.indexOf('\r\n\r\n');
  const headers = message.slice(0, at).replaceAll(/\r\n(?=[ \t])/g, '');
  const body = message.slice(at + 4);
  const isEncoded = /^content-transfer-encoding: quoted-printable/im.test(headers);
  const subject = decodeWords(/^subject: (.*)$/im.exec(headers)?.[1] ?? '');
  return { headers, subject, text: (isEncoded ? decodeQuotedPrintable(body) : body).replaceAll('\r\n', '\n') };
}

/**
 * `answer` is called for each mail and returns an SMTP status to reject it, or undefined to accept it. Mails whose subjects match
 * `ignored` are accepted, and not returned.
 */
export async function startMailServer(
  options: {
    host?: string;
    ignored?: RegExp;
    answer?: (message: string) => number | undefined | Promise<undefined>;
  } = {},
): Promise<MailServer> {
  const received: ReceivedMail[] = [];
  const waiting: ((mail: ReceivedMail) => void)[] = [];
  let tries = 0;
  const server = new SMTPServer({
    disabledCommands: ['AUTH', 'STARTTLS'],
    disableReverseLookup: true,
    closeTimeout: 100,
    onData: (stream, session, done) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      const receive = async (): Promise<void> => {
        tries += 1;
        const message = Buffer.concat(chunks).toString();
        const status = await options.answer?.(message);
        if (status !== undefined)
          return done(Object.assign(new Error(`Refused: ${message}`), { responseCode: status }));
        const { mailFrom, rcptTo } = session.envelope;
        const from = mailFrom === false ? '' : mailFrom.address;
        const mail = { from, to: rcptTo.map(({ address }) => address), ...read(message) };
        if (options.ignored?.test(mail.subject) === true) return done();
        const taker = waiting.shift();
        if (taker === undefined) received.push(mail);
        else taker(mail);
        done();
      };
      stream.on('end', () => void receive());
    },
  });
  server.on('error', () => {});
  const listening = server.listen(0, '127.0.0.1');
  await once(listening, 'listening');
  const { port } = listening.address() as AddressInfo;
  return {
    url: `smtp://${options.host ?? '127.0.0.1'}:${port}`,
    next: async () => {
      const there = received.shift();
      if (there !== undefined) return there;
      const { promise, resolve, reject } = Promise.withResolvers<ReceivedMail>();
      waiting.push(resolve);
      const late = setTimeout(() => reject(new Error('No mail arrived')), PATIENCE_MS);
      return promise.finally(() => clearTimeout(late));
    },
    tries: () => tries,
    unread: () => received,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
