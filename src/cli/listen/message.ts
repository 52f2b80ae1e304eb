/** Decodes and verifies a delivery of an event stream. */
import { verifyDelivery, WebhookError, type Delivery } from '#receiver';
import { prefixIn } from '../header-prefix.ts';
import type { Headers } from './forward.ts';

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
export function eventOf({ headers }: Message): string {
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
