/** A page of webhooks as a request makes it, but for the database: every page is built from new strings. */
import type { Document, Naming } from '#hypermedia/document.ts';
import { collection } from '#hypermedia/paging.ts';
import { webhookDocument } from '#webhooks/webhook-document.ts';
import { defaults } from '#webhooks/webhook-fields.ts';

export const naming: Naming = { baseUrl: 'https://api.example.com', relationPrefix: 'svc' };

const { baseUrl } = naming;
const STORE_ID = 4096;
const now = new Date('2026-07-01T10:00:00Z');

const webhookAt = (n: number): Document =>
  webhookDocument(
    {
      id: 1_000_192 + 256 * n,
      storeId: STORE_ID,
      isForApp: false,
      client: 1,
      user: 7,
      ...defaults,
      name: `Orders to warehouse ${n}`,
      format: 'json',
      url: `https://warehouse${n}.example.com/orders`,
      query: 'zoom=items,items:item_options,customer',
      encryptionKey: null,
      nextEncryptionKey: null,
      rotationEndsAt: null,
      requestSecrets: null,
      eventResource: 'transaction',
      events: ['transaction/created', 'transaction/modified', 'transaction/refunded'],
      inactiveReason: null,
      epoch: 0,
      revision: 1,
      dateCreated: now,
      dateModified: now,
      timeZone: 'Europe/Berlin',
      consecutiveFailures: 0,
      pausedUntil: null,
      heldUntil: null,
      lacks: null,
    },
    {
      baseUrl,
      now,
      isRotatable: false,
      isListenable: false,
      isSendable: false,
      encryptionKey: null,
      nextEncryptionKey: null,
      publicKey: null,
      nextPublicKey: null,
    },
  );

/** The first page of a collection that has more. */
export function pageOf(webhooks: number): Document {
  return collection({
    name: 'webhooks',
    rel: 'webhooks',
    title: 'Webhooks',
    path: `${baseUrl}/stores/${STORE_ID}/webhooks`,
    query: new URLSearchParams(),
    page: { offset: 0, limit: webhooks },
    total: 3 * webhooks,
    items: Array.from({ length: webhooks }, (_, n) => webhookAt(n)),
  });
}
