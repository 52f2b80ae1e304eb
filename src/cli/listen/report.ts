/** Prints a line for each delivery of a listener, or with --json an object. */
import type { Delivery } from '#receiver';
import type { Terminal } from '../terminal.ts';
import type { Forwarded } from './forward.ts';
import { eventOf, type Message } from './message.ts';

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
