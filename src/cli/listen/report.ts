/** What somebody who listens reads: a line for each delivery, or with --json an object. */
import type { Delivery } from '#receiver';
import type { Terminal } from '../terminal.ts';
import type { Forwarded } from './forward.ts';
import { eventOf, type Message } from './message.ts';

/** `forwarded` is undefined where it was only looked at; `opened` is a sentence where it is not what Halcyon would send. */
export type Told = { message: Message; opened: Delivery | string; forwarded: Forwarded | undefined };

const time = (now: Date): string => now.toTimeString().slice(0, 8);

const REASONS: Readonly<Record<string, string>> = {
  'unreachable:connect': 'nothing listens there',
  'unreachable:dns': 'its name is not known',
  'unreachable:tls': 'no TLS that this computer trusts',
  'unreachable:reset': 'it hung up before it answered',
  'timed_out:answer': 'no answer in 30 s',
  'timed_out:body': 'no whole answer in 30 s',
  malformed: 'what it answers is no HTTP',
};

const resultOf = ({ opened, forwarded }: Told): string => {
  if (typeof opened === 'string') return `NOT VERIFIED, and not forwarded: ${opened}`;
  if (forwarded === undefined) return 'verified';
  const { response_code: code, outcome = '', duration } = forwarded;
  return `→ ${code ?? `${REASONS[outcome] ?? outcome},`} in ${duration} ms`;
};

const bodyOf = (opened: Delivery | string): unknown => {
  if (typeof opened === 'string') return undefined;
  try {
    return opened.json();
  } catch {
    return Buffer.from(opened.body).toString();
  }
};

const asObject = (told: Told, printsBody: boolean, now: Date): object => {
  const { message, opened, forwarded } = told;
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
};

export const createReport =
  ({ print, isJson }: Terminal, { printsBody, now }: { printsBody: boolean; now: () => Date }) =>
  (told: Told): void => {
    if (isJson === true) return print(JSON.stringify(asObject(told, printsBody, now())));
    const { message, opened } = told;
    print(`${time(now())}  ${eventOf(message)}  ${message.event_id}  ${resultOf(told)}`);
    if (printsBody && typeof opened !== 'string') print(JSON.stringify(bodyOf(opened), null, 2));
    return undefined;
  };
