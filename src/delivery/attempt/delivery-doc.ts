/** Documents the requests of webhooks with the format `json`, for the reference. */
import { eventsOf, resourceTypes, type ResourceType } from '#catalog/catalog.ts';
import { ENCRYPTED_TYPE } from './encrypt.ts';
import { formats } from './formats/formats.ts';
import { namesOf } from './request.ts';

/** A header of every delivery, or of some. */
export type HeaderDoc = { name: string; about: string; type: 'string' | 'integer'; isOptional?: true };

export type DeliveryDoc = {
  /** The events to which a webhook can subscribe. */
  events: readonly { event: string; resource: ResourceType }[];
  headers: readonly HeaderDoc[];
  contentType: string;
  /** The media type over plain http. */
  encryptedType: string;
};

function headerDocs(prefix: string): HeaderDoc[] {
  const name = namesOf(prefix);
  return [
    { name: name.event, about: 'The event; <resource>/refeed for a resource that is sent again.', type: 'string' },
    { name: name.refeed, about: 'true for a resource that is sent again, otherwise false.', type: 'string' },
    { name: name.attempt, about: 'The number of the attempt, from 1.', type: 'integer' },
    { name: name.version, about: 'The version of the resource: ignore one older than yours.', type: 'integer' },
    { name: name.storeId, about: 'The id of the store.', type: 'integer' },
    { name: name.storeDomain, about: 'The domain of the store.', type: 'string' },
    { name: 'webhook-id', about: 'The same in all attempts: drop duplicates.', type: 'string' },
    { name: 'webhook-timestamp', about: 'Seconds since 1970: refuse one five minutes away.', type: 'integer' },
    { name: 'webhook-signature', about: 'Standard Webhooks: v1 and HMAC-SHA256 in base64, by blanks.', type: 'string' },
    { name: name.signature, about: 'HMAC-SHA256 of the body in hex.', type: 'string' },
    {
      name: name.nextSignature,
      about: 'The same with the next key, during a rotation.',
      type: 'string',
      isOptional: true,
    },
  ];
}

/** Returns the documentation with the header names of the operator. */
export function deliveryDoc(headerPrefix: string): DeliveryDoc {
  return {
    events: resourceTypes.flatMap((resource) => eventsOf(resource).map((event) => ({ event, resource }))),
    headers: headerDocs(headerPrefix),
    contentType: formats.json.contentType,
    encryptedType: ENCRYPTED_TYPE,
  };
}
