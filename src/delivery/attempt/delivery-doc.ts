/** Documents the requests of webhooks with the format `json`, for the reference. */
import { ENCRYPTED_TYPE } from './encrypt.ts';
import { formats } from './formats/formats.ts';
import { namesOf } from './request.ts';

/** A header of every delivery, or of some. */
export type HeaderDoc = { name: string; about: string; type: 'string' | 'integer'; isOptional?: true };

export type DeliveryDoc = {
  headers: readonly HeaderDoc[];
  contentType: string;
  /** The media type over plain http. */
  encryptedType: string;
};

const doc = (name: string, about: string): HeaderDoc => ({ name, about, type: 'string' });
const integer = (name: string, about: string): HeaderDoc => ({ name, about, type: 'integer' });

function headerDocs(prefix: string): HeaderDoc[] {
  const name = namesOf(prefix);
  return [
    doc(name.event, 'The event, such as transaction/created; <resource>/refeed for a resource that is sent again.'),
    doc(
      name.signature,
      'HMAC-SHA256 of the raw body in lower-case hex; the key is the whole string encryption_key in UTF-8.',
    ),
    { ...doc(name.nextSignature, 'Only during a key rotation: the same with the new key.'), isOptional: true },
    integer(name.version, 'Higher for each newer version of the resource: ignore one older than yours.'),
    integer(name.attempt, '1 for the first attempt.'),
    doc(name.refeed, 'true if the resource was sent again on request, otherwise false.'),
    {
      ...doc(name.test, 'true in a test delivery, whose webhook-id begins with msg_test_: do not act on its event.'),
      isOptional: true,
    },
    integer(name.storeId, 'The id of the store.'),
    doc(name.storeDomain, 'The domain of the store.'),
    doc('webhook-id', 'The same in every attempt to deliver one event to one webhook: drop duplicates.'),
    integer('webhook-timestamp', 'The time of the attempt, in seconds since 1970: refuse one five minutes away.'),
    doc(
      'webhook-signature',
      'v1 and the HMAC-SHA256 of id.timestamp.body in base64 (Standard Webhooks); several are separated by blanks. If the key is whsec_ and base64, the decoded bytes are the key.',
    ),
  ];
}

const requestOriginDoc = doc('webhook-request-origin', 'The name of this service, which the endpoint has allowed.');

/** Returns the documentation with the header names of the operator. `isOriginSent`: endpoints have to answer the handshake. */
export function deliveryDoc(headerPrefix: string, { isOriginSent = false } = {}): DeliveryDoc {
  return {
    headers: [...headerDocs(headerPrefix), ...(isOriginSent ? [requestOriginDoc] : [])],
    contentType: formats.json.contentType,
    encryptedType: ENCRYPTED_TYPE,
  };
}
