/** What the relations of a delivery mean, with an example made as the real one is. */
import type { Relation } from '#http/relation.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import type { WebhookRow } from '../webhook-sql.ts';
import type { AttemptRow, DeliveryRow } from './history-sql.ts';
import { wholeDelivery } from './delivery.ts';
import { requestDocument, type Previewed } from './delivery-request.ts';

type Given = { webhook: WebhookRow; delivery: DeliveryRow; attempt: AttemptRow; now: Date };

const previewed = ({ revision }: WebhookRow, { eventId }: DeliveryRow): Previewed => ({
  kind: 'made',
  revision,
  headers: Object.entries({
    'content-type': 'application/json',
    'webhook-id': `msg_${eventId.toString(36)}_2n9c_1rd`,
    'webhook-timestamp': '1795190770',
    'webhook-signature': 'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  }).flat(),
  body: Buffer.from('{"id":70012,"total_order":58.9}'),
  isEncrypted: false,
  isWhole: true,
  isHidden: false,
});

export const deliveryRelations = ({ webhook, delivery, attempt, now }: Given): Relation[] => {
  const example = ({ baseUrl }: Naming): Document => {
    const made = previewed(webhook, delivery);
    const request = requestDocument({ delivery, webhook, previewed: made, difference: null, baseUrl });
    return wholeDelivery({ row: delivery, webhook, attempts: [attempt], request, previewed: made, baseUrl, now });
  };
  return [
    {
      rel: 'status',
      title: 'A delivery',
      about:
        'One event on its way to one webhook: pending until it arrives or is given up. reason says why it has not arrived and what to do; at its own address it comes with all attempts, with what it waits for, and with the request.',
      paths: ['/webhooks/:webhook_id/statuses/:delivery_id'],
      example,
    },
    {
      rel: 'request',
      title: 'What is sent in a delivery',
      about:
        'The request made by the code that sends it. as_sent is true where it is byte for byte what went out in the last attempt; else note says what it is: what will be sent, or what would be sent now, because the webhook was changed since, dated when the delivery is due or has ended. Signatures are there for who sees the key.',
    },
    {
      rel: 'resend',
      title: 'The same delivery once more',
      about:
        'A POST sends the same event to the same webhook again, also where it has arrived. It is a delivery of its own, with the same webhook-id and attempts that count from 1. While one of the event is pending, and where the webhook is switched off or the event was erased, that is a 409.',
      paths: ['/webhooks/:webhook_id/statuses/:delivery_id/resend'],
      makes: 'status',
    },
  ];
};
