/** Documentation of the relations of recoveries, with an example rendered by the real code. */
import { listExample, type Relation } from '#http/relation.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { recoveryDocument } from './recovery.ts';
import type { RecoveryRow } from './recovery-sql.ts';

const recovery: RecoveryRow = {
  id: 583_913,
  webhookId: 2281,
  state: 'running',
  since: new Date('2026-11-19T08:00:00Z'),
  until: null,
  event: null,
  onlyFailed: false,
  resourceId: null,
  responseCode: null,
  responseBody: null,
  loaded: false,
  eventsTotal: 48_120,
  eventsSeen: 20_000,
  eventsRecovered: 1_734,
  dateCreated: new Date('2026-11-20T16:05:03Z'),
  dateModified: new Date('2026-11-20T16:05:09Z'),
  dateEnded: null,
};

const webhook = { id: 2281, storeId: 1001, name: 'Orders to the warehouse', timeZone: 'Europe/Berlin' };

const example = ({ baseUrl }: Naming): Document => recoveryDocument(recovery, webhook, { baseUrl });

export const recoveryRelations: readonly Relation[] = [
  {
    rel: 'recover',
    title: 'Recover missed events',
    about:
      'POST {"since": date} starts a recovery: the webhook is sent those of its events since that date that have neither a successful nor a pending delivery, with their original webhook-id. until limits it to events before a date, event to one event of the webhook, resource_id to one resource, and only_failed to events with a failed delivery. response_code and response_body limit it to events with a failed delivery whose last response had them. In resource_id and response_body * is any text, as in a search of statuses. With loaded the webhook is instead sent the resources of its type that were loaded and not published since, and modified since that date, each as a refeed; the date may be any. Recovered and live events are sent side by side. The response (202) is the recovery with its progress. A webhook has one open recovery at a time.',
    paths: ['/webhooks/:webhook_id/recover'],
    makes: ['recovery'],
  },
  {
    rel: 'recoveries',
    title: 'The recoveries of a webhook',
    about: 'Open and ended recoveries, newest first, for as long as events are kept.',
    paths: ['/webhooks/:webhook_id/recoveries'],
    example: listExample('recoveries', 'The recoveries of this webhook', '/webhooks/2281/recoveries', example),
  },
  {
    rel: 'recovery',
    title: 'A recovery',
    about:
      'events_total is the number of events of the store since the beginning of the day (UTC) of since; events_seen of them were checked, and events_recovered received a delivery; with loaded they count resources. state is waiting (for publishes that were running when it was created), running, finished, cancelled, or stopped (the webhook was disabled meanwhile). Ended recoveries stay readable.',
    paths: ['/webhooks/:webhook_id/recoveries/:recovery_id'],
    example,
  },
  {
    rel: 'cancel',
    title: 'Cancel a recovery',
    about:
      'POST ends a waiting or running recovery; the link exists only for those. No more deliveries are created, existing ones are still sent, and the recovery stays readable.',
    paths: ['/webhooks/:webhook_id/recoveries/:recovery_id/cancel'],
    makes: ['recovery'],
  },
];
