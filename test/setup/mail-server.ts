/** A real mail server on loopback that keeps what it is handed, or answers what a test tells it to. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';

const PATIENCE_MS = 10_000;

export type ReceivedMail = { from: string; to: string[]; headers: string; subject: string; text: string };

export type MailServer = {
  url: string;
  /** The next mail that has not been asked for yet, as soon as it is there. */
  next: () => Promise<ReceivedMail>;
  /** How many were handed in or tried, and those of them that were taken and not asked for. */
  tries: () => number;
  unread: () => readonly ReceivedMail[];
  stop: () => Promise<void>;
};

/** RFC 2045 §6.7, as far as text of a line or two goes. */
const decodeQuotedPrintable = (text: string): string =>
  Buffer.from(
    text
      .replaceAll('=\r\n', '')
      .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
    'latin1',
  ).toString();

/** RFC 2047, in its encoding Q alone: what stands in `=?UTF-8?Q?…?=`, several of which are one text. */
const decodeWords = (text: string): string =>
  text
    .replaceAll(/\?=\s+=\?utf-8\?q\?/gi, '')
    .replaceAll(/=\?utf-8\?q\?([^?]*)\?=/gi, (_, word: string) => decodeQuotedPrintable(word.replaceAll('_', ' ')));

const read = (message: string): Pick<ReceivedMail, 'headers' | 'subject' | 'text'> => {
  const at = message.indexOf('\r\n\r\n');
  const headers = message.slice(0, at).replaceAll(/\r\n(?=[ \t])/g, '');
  const body = message.slice(at + 4);
  const isEncoded = /^content-transfer-encoding: quoted-printable/im.test(headers);
  const subject = decodeWords(/^subject: (.*)$/im.exec(headers)?.[1] ?? '');
  return { headers, subject, text: (isEncoded ? decodeQuotedPrintable(body) : body).replaceAll('\r\n', '\n') };
};

/** `answer` is asked at each mail: an SMTP status to refuse it with, or undefined to take it. */
export const startMailServer = async (
  options: { host?: string; answer?: (message: string) => number | undefined | Promise<undefined> } = {},
): Promise<MailServer> => {
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
      const late = setTimeout(() => reject(new Error('No mail came')), PATIENCE_MS);
      return promise.finally(() => clearTimeout(late));
    },
    tries: () => tries,
    unread: () => received,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
};
