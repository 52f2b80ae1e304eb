/** What one attempt puts on the wire: its bytes, and the headers that speak of them. */
import { keysAt } from '#core/rotation.ts';
import type { ActiveTarget } from '../queue/target.ts';
import type { Bodies } from './bodies.ts';
import { encryptBody, ENCRYPTED_TYPE } from './encrypt.ts';
import type { Body } from './event-cache.ts';
import { formats } from './formats/formats.ts';
import { headersOf } from './request.ts';

export type MessageSettings = { headerPrefix: string; userAgent: string };

/** Each header's name is followed by its value. */
export type Message = { headers: string[]; body: Uint8Array };

/** Which attempt at which webhook, and when: by the time the key is chosen, and it is in what is signed. */
export type AttemptContext = { webhookId: number; target: ActiveTarget; attempt: number; now: Date };

/** Throws where the event cannot be rendered or encrypted, or a header cannot carry what it has to. */
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
