/** What a delivery says beside its body. */
import type { EventRow } from './queries.ts';
import { hexSignature, standardSignature, webhookMessageId } from './sign.ts';
import type { ActiveTarget } from '../lanes/target.ts';

export type Sending = {
  event: EventRow;
  target: Pick<ActiveTarget, 'headers' | 'storeDomain' | 'encryptionKey'>;
  webhookId: number;
  attempt: number;
  body: Uint8Array;
  now: Date;
  /** `Service`, unless the operator set another. */
  headerPrefix: string;
  userAgent: string;
};

const CONTENT_TYPE = 'application/hal+json';

/**
 * The headers of one attempt (contract, "Deliveries out"). Both signatures are over `body`, which must be the very bytes
 * that are sent. Without a key there are none.
 */
export const headersOf = (sending: Sending): Record<string, string> => {
  const { event, target, webhookId, attempt, body, now, headerPrefix } = sending;
  const id = webhookMessageId(event.id, event.nonce, webhookId);
  const timestamp = Math.floor(now.getTime() / 1000);
  const headers: Record<string, string> = {
    ...target.headers,
    'content-type': CONTENT_TYPE,
    'user-agent': sending.userAgent,
    'accept-encoding': 'identity',
    [`${headerPrefix}-Webhook-Event`]: `${event.type}/${event.action}`,
    [`${headerPrefix}-Webhook-Refeed`]: String(event.action === 'refeed'),
    [`${headerPrefix}-Webhook-Attempt`]: String(attempt),
    [`${headerPrefix}-Webhook-Resource-Version`]: String(event.version),
    [`${headerPrefix}-Store-ID`]: String(event.storeId),
    [`${headerPrefix}-Store-Domain`]: target.storeDomain,
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
  };
  if (target.encryptionKey === null) return headers;
  headers[`${headerPrefix}-Webhook-Signature`] = hexSignature(body, target.encryptionKey);
  headers['webhook-signature'] = standardSignature(body, id, timestamp, target.encryptionKey);
  return headers;
};
