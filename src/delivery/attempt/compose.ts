/** Composes the request of one attempt: body and headers. */
import { keysAt } from '#core/rotation.ts';
import type { ActiveTarget } from '../queue/target.ts';
import type { Bodies } from './bodies.ts';
import { encryptBody, ENCRYPTED_TYPE } from './encrypt.ts';
import type { Body } from './event-cache.ts';
import { formats } from './formats/formats.ts';
import { headersOf } from './request.ts';

export type MessageSettings = { headerPrefix: string; userAgent: string };

/** `headers`: names and values alternate. */
export type Message = { headers: string[]; body: Uint8Array };

/** The time selects the key and is part of what is signed. */
export type AttemptContext = { webhookId: number; target: ActiveTarget; attempt: number; now: Date };

/** Throws if the event cannot be rendered or encrypted, or if a header value is invalid. */
export const compose = (
  { webhookId, target, attempt, now }: AttemptContext,
  event: Body,
  { bodies, settings: { headerPrefix, userAgent } }: { bodies: Bodies; settings: MessageSettings },
): Message => {
  const keys = keysAt(target, now);
  let contentType: string = formats[target.format].contentType;
  let body = bodies.shape(event, target);
  if (target.isEncrypted && keys.current !== null) {
    body = encryptBody(body, contentType, keys.current);
    contentType = ENCRYPTED_TYPE;
  }
  const headers = headersOf({
    event: event.event,
    target,
    keys,
    webhookId,
    attempt,
    body,
    contentType,
    now,
    headerPrefix,
    userAgent,
  });
  return { headers, body };
};
