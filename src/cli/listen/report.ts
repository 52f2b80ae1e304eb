/** Prints a line for each delivery of a listener, or with --json an object. */
import { WebhookError, type Delivery, verifyDelivery } from '#receiver';
import type { Terminal } from '../terminal.ts';
import type { Forwarded, Headers } from './forward.ts';
import { prefixIn } from '../header-prefix.ts';

/** `forwarded` is undefined if the delivery is only shown; `opened` is a sentence if the verification failed. */
export type DeliveryReport = { message: Message; opened: Delivery | string; forwarded: Forwarded | undefined };

const time = (now: Date): string => now.toTimeString().slice(0, 8);

const REASONS: Readonly<Record<string, string>> = {
  'unreachable:connect': 'connection refused',
  'unreachable:dns': 'unknown host name',
  'unreachable:tls': 'untrusted TLS certificate',
  'unreachable:reset': 'connection closed before the response',
  'timed_out:answer': 'no response within 30 s',
  'timed_out:body': 'no complete response within 30 s',
  malformed: 'the response is not HTTP',
};

function resultOf({ opened, forwarded }: DeliveryReport): string {
  if (typeof opened === 'string') return `NOT VERIFIED, and not forwarded: ${opened}`;
  if (forwarded === undefined) return 'verified';
  const { response_code: code, outcome = '', duration } = forwarded;
  return `→ ${code ?? `${REASONS[outcome] ?? outcome},`} in ${duration} ms`;
}

function bodyOf(opened: Delivery | string): unknown {
  if (typeof opened === 'string') return undefined;
  try {
    return opened.json();
  } catch {
    return Buffer.from(opened.body).toString();
  }
}

function asObject(report: DeliveryReport, printsBody: boolean, now: Date): object {
  const { message, opened, forwarded } = report;
  return {
    time: now.toISOString(),
    event: eventOf(message),
    event_id: message.event_id,
    delivery_id: message.delivery_id,
    verified: typeof opened !== 'string',
    ...(typeof opened === 'string' ? { reason: opened } : {}),
    ...(forwarded === undefined
      ? {}
      : {
          response_code: forwarded.response_code,
          duration: forwarded.duration,
          ...(forwarded.outcome === undefined ? {} : { outcome: forwarded.outcome }),
        }),
    ...(printsBody ? { body: bodyOf(opened) } : {}),
  };
}

export function createReport(
  { print, isJson }: Terminal,
  { printsBody, now }: { printsBody: boolean; now: () => Date },
) {
  return (report: DeliveryReport): void => {
    if (isJson === true) return print(JSON.stringify(asObject(report, printsBody, now())));
    const { message, opened } = report;
    print(`${time(now())}  ${eventOf(message)}  ${message.event_id}  ${resultOf(report)}`);
    if (printsBody && typeof opened !== 'string') print(JSON.stringify(bodyOf(opened), null, 2));
    return undefined;
  };
}

export type Message = {
  delivery_id: number;
  event_id: number;
  headers: Headers;
  body: Uint8Array;
  /** The address to which the result is sent. */
  answer: string;
};

export function readMessage(data: string): Message {
  const { body, ...rest } = JSON.parse(data) as Omit<Message, 'body'> & { body: string };
  return { ...rest, body: Buffer.from(body, 'base64') };
}

const EVENT = /^.+-webhook-event$/i;

/** Returns the name of the event; it is not verified. */
function eventOf({ headers }: Message): string {
  return Object.entries(headers).find(([name]) => EVENT.test(name))?.[1] ?? 'unknown';
}

/** Returns the verified and decrypted delivery, or a sentence that describes the failure. */
export async function openMessage({ headers, body }: Message, key: string): Promise<Delivery | string> {
  try {
    return await verifyDelivery({ headers, body, keys: [key], headerPrefix: prefixIn(headers) });
  } catch (error) {
    if (error instanceof WebhookError) return error.message;
    throw error;
  }
}
