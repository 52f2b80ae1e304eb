/** Documentation of the relations of webhooks, with examples rendered by the real code. */
import { Type } from 'typebox';
import { listExample, type Chapter } from '#http/relation.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { webhookDocument } from './webhook-document.ts';
import {
  attempt,
  deliveryRelations,
  healthRelations,
  listedExample,
  now,
  recoveryRelations,
  webhook,
} from './delivery-relations.ts';
import { attemptDocument } from './history/history-documents.ts';

const shown = {
  now,
  isRotatable: true,
  isListenable: false,
  isSendable: true,
  encryptionKey: 'whsec_c2VjcmV0IG9mIHRoZSB3YXJlaG91c2U=',
  nextEncryptionKey: 'whsec_bmV3IHNlY3JldCBvZiB0aGUgd2FyZWhvdXNl',
  publicKey: null,
  nextPublicKey: null,
};
/** The key pair of RFC 8032 §7.1, test 1. */
const SIGNING = {
  encryptionKey: 'whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=',
  nextEncryptionKey: null,
  publicKey: 'whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=',
  nextPublicKey: null,
};
const webhookExample = ({ baseUrl }: Naming): Document => webhookDocument(webhook, { baseUrl, ...shown });
const logExample = ({ baseUrl }: Naming): Document => attemptDocument(attempt, webhook, baseUrl);

const jwks = Type.Object({
  keys: Type.Array(
    Type.Object({
      kty: Type.Literal('OKP'),
      crv: Type.Literal('Ed25519'),
      x: Type.String({ description: 'The public key in base64url (RFC 8037).' }),
      kid: Type.String({ description: 'The thumbprint of the key (RFC 7638).' }),
      use: Type.Literal('sig'),
      alg: Type.Literal('EdDSA'),
    }),
  ),
});

const chapter: Chapter = {
  title: 'Webhooks',
  about: 'Events of a store are sent to your endpoint, and every attempt is recorded.',
  relations: [
    {
      rel: 'webhooks',
      title: 'The webhooks of a store',
      about: 'All webhooks of the store, of any app. POST creates a webhook; a store has at most 100.',
      paths: ['/stores/:store_id/webhooks'],
      makes: ['webhook'],
      example: listExample('webhooks', 'The webhooks of this store', '/stores/1001/webhooks', webhookExample),
    },
    {
      rel: 'webhook',
      title: 'A webhook',
      about:
        'Where events of a store are sent, and in which format. While is_active is "0" nothing is sent; Halcyon disables a webhook after too many consecutive failures. encryption_key and next_encryption_key, which replaces it at rotation_ends, are shown to the client that created the webhook (for a pull webhook only to the same user) and to the owner of the store in person. Other readers see null instead of keys and header values, and *** instead of each value in the query of url; sending these back keeps the stored values. A key that begins with whsk_ is an Ed25519 key, whose public_key (and next_public_key) every reader sees, and anyone at jwks.',
      paths: ['/webhooks/:webhook_id'],
      example: webhookExample,
      variants: [
        ({ baseUrl }) => webhookDocument({ ...webhook, isHeld: true }, { baseUrl, ...shown, isListenable: true }),
        ({ baseUrl }) => webhookDocument(webhook, { baseUrl, ...shown, ...SIGNING }),
      ],
    },
    {
      rel: 'rotate_key',
      title: 'Rotate the key of a webhook',
      about:
        'POST adds a second key, next_encryption_key: the one that you send, or a generated one, with key_type ed25519 an Ed25519 key. Until rotation_ends deliveries are signed with both keys, so that your server can change keys without losing events; then only the new key is valid. {"finish":true} ends the rotation immediately. Only readers who see the key may rotate it.',
      paths: ['/webhooks/:webhook_id/rotate_key'],
      makes: ['webhook'],
    },
    {
      rel: 'test',
      title: 'Send a sample event to a webhook',
      about:
        'POST sends one sample event immediately, even if the webhook is disabled, and returns the attempt with its response. It is not retried, does not count as a failure, and is listed in statuses and logs as <resource>/test. If you name an event, it is sent under that name and listed as <resource>/test:<action>.',
      paths: ['/webhooks/:webhook_id/test'],
      makes: ['log', 'status'],
    },
    {
      rel: 'retry_pending',
      title: 'Retry the pending deliveries of a webhook now',
      about:
        'POST makes the pending deliveries of the webhook due at once, at most 10,000, even if the endpoint asked for a pause or failed many times. After five consecutive failures one is attempted first; if it succeeds, the others follow. Each attempt counts. A successful test of a failing webhook, and a change of its url, do the same. The response is 409 if the webhook is disabled or a pull webhook.',
      paths: ['/webhooks/:webhook_id/retry_pending'],
      makes: ['webhook'],
    },
    {
      rel: 'passing',
      title: 'The resources that pass the filter of a webhook',
      about:
        'The latest versions of the resources whose events the webhook is sent now. Absent without a filter, and with one that names a property that the list does not have.',
      paths: ['/stores/:store_id/:collection'],
    },
    {
      rel: 'listen',
      title: 'The stream of a pull webhook',
      about:
        'For a webhook created with is_held "1": a stream of server-sent events (text/event-stream) for the app and the user that created it, one listener at a time. Each event `delivery` contains the request that a url would receive; a POST to its `answer` reports the result and ends the delivery. Unanswered deliveries are sent again on the next stream.',
      paths: ['/webhooks/:webhook_id/stream'],
    },
    {
      rel: 'answer',
      title: 'The answer to a delivery of a pull webhook',
      about:
        'POST by the listener ends the delivery, with the response_code of the response or with an outcome if there was none. The same answer may be repeated. The delivery is not retried, and the answer does not affect the health of the webhook.',
      paths: ['/webhooks/:webhook_id/statuses/:delivery_id/answer'],
      makes: ['log'],
    },
    {
      rel: 'statuses',
      title: 'The deliveries of a store, a webhook or an event',
      about:
        'One delivery per event and webhook, newest first: whether it arrived, and when the next attempt is. Those of a store are the deliveries to its present webhooks.',
      paths: [
        '/webhooks/:webhook_id/statuses',
        '/stores/:store_id/statuses',
        '/stores/:store_id/events/:event_id/statuses',
      ],
      example: listExample('statuses', 'The deliveries of this webhook', '/webhooks/2281/statuses', listedExample),
    },
    ...deliveryRelations,
    {
      rel: 'logs',
      title: 'The attempts of a webhook',
      about:
        'Every request of this webhook, newest first, with the response of your server and the duration in milliseconds.',
      paths: ['/webhooks/:webhook_id/logs'],
      example: listExample('logs', 'The attempts to deliver to this webhook', '/webhooks/2281/logs', logExample),
    },
    {
      rel: 'log',
      title: 'An attempt',
      about:
        'One request of a delivery and its response, of which at most 16 KiB are kept. Attempts are listed in logs and embedded in their delivery; reason explains a failure and how to fix it.',
      example: logExample,
    },
    {
      rel: 'jwks',
      title: 'The public keys of a webhook',
      about:
        'The Ed25519 keys that verify its deliveries, as a JSON Web Key Set (RFC 7517). A webhook with a secret has none.',
    },
    ...healthRelations,
    ...recoveryRelations,
  ],
};

export function webhookChapter({ baseUrl }: { baseUrl: string }): Chapter {
  return {
    ...chapter,
    endpoints: [
      {
        rel: 'jwks',
        address: `${baseUrl}/webhooks/{webhook_id}/jwks.json`,
        method: 'GET',
        title: 'The public keys of a webhook',
        summary:
          'The Ed25519 keys that verify its deliveries, during a rotation two; 404 for a webhook with another key',
        access: 'Anyone',
        specification: 'RFC 7517, RFC 8037',
        returns: jwks,
        fails: 'errors',
        answers: { '200': 'The keys', '404': 'There is no such key' },
      },
    ],
  };
}
