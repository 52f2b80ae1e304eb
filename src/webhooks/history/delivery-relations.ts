/** Documentation of the relations of a delivery, with an example rendered by the real code. */
import type { Relation } from '#http/relation.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import type { AttemptRow, DeliveryRow } from './history-sql.ts';
import { detailedDelivery } from './delivery-details.ts';
import { deliveryDocument } from './history-documents.ts';
import { compare, viewOfRequest, type Previewed } from './delivery-request.ts';

type ExampleRows = { webhook: WebhookRow; delivery: DeliveryRow; attempt: AttemptRow; now: Date };

const previewExample = ({ url, headers, requestSecrets }: WebhookRow, { eventId }: DeliveryRow): Previewed => ({
  kind: 'made',
  columns: { url, headers, requestSecrets },
  isOther: false,
  headers: Object.entries({
    'content-type': 'application/json',
    'webhook-id': `msg_${eventId.toString(36)}_2n9c_1rd`,
    'webhook-timestamp': '1795190770',
    'webhook-signature': 'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  }).flat(),
  body: Buffer.from('{"id":70012,"total_order":58.9}'),
  isEncrypted: false,
  isWhole: true,
  isRekeyed: false,
  isHidden: false,
});

export function deliveryRelations({ webhook, delivery, attempt, now }: ExampleRows): Relation[] {
  const exampleOf =
    (row: DeliveryRow) =>
    ({ baseUrl }: Naming): Document => {
      const preview = previewExample(webhook, row);
      const comparison = compare(attempt, row, { webhook, storeChangedAt: null });
      const request = viewOfRequest({
        delivery: row,
        webhook,
        previewed: preview,
        comparison,
        attempt: attempt.n,
        baseUrl,
      });
      return detailedDelivery({
        row,
        webhook,
        attempts: [attempt],
        request,
        previewed: preview,
        isSendable: true,
        attemptsMaxOf: () => 12,
        baseUrl,
        now,
      });
    };
  return [
    {
      rel: 'status',
      title: 'A delivery',
      about:
        'The delivery of one event to one webhook: pending until it succeeds or fails. reason explains a failure and how to fix it. At its own address it also has all attempts, the request, and while it is pending attempts_max, the number of attempts after which it fails, and waits_for, the reason why it is pending.',
      paths: ['/webhooks/:webhook_id/statuses/:delivery_id'],
      example: exampleOf(delivery),
      variants: [
        exampleOf({ ...delivery, status: 'pending', dateNext: now, dateEnded: null }),
        // As retry and resend return it.
        ({ baseUrl }) => deliveryDocument(delivery, webhook, baseUrl),
      ],
    },
    {
      rel: 'request',
      title: 'The request of a delivery',
      about:
        'The request of an attempt: of the last one, or of the one that the parameter attempt names. It is made by the code that sends it, from the event and the settings that the webhook had at the attempt. as_sent is true if it is byte for byte the request that was sent; otherwise note explains the difference, such as settings that are no longer kept. Signatures are shown to readers who see the key, until it is replaced.',
    },
    {
      rel: 'preceding',
      title: 'The delivery before it',
      about:
        'The delivery that a pending one waits for, because its webhook has the ordering resource: the one before it of the same resource that has not ended yet.',
      paths: ['/webhooks/:webhook_id/statuses/:delivery_id'],
    },
    {
      rel: 'retry',
      title: 'Retry now',
      about:
        'POST attempts a pending delivery next, whenever it is due, even if the endpoint asked for a pause or failed many times. The attempt counts. The response is 409 if the delivery has ended or waits for the listener of a pull webhook.',
      paths: ['/webhooks/:webhook_id/statuses/:delivery_id/retry'],
      makes: ['status'],
    },
    {
      rel: 'resend',
      title: 'Resend a delivery',
      about:
        'POST sends the same event to the same webhook again, even if it arrived. This creates a new delivery with the same webhook-id, whose attempts count from 1. The response is 409 if a delivery of the event is pending, the webhook is disabled, or the event was erased.',
      paths: ['/webhooks/:webhook_id/statuses/:delivery_id/resend'],
      makes: ['status'],
    },
  ];
}
