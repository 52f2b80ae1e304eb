/** What the relations of recoveries mean, with an example made as the real ones are. */
import { listExample, type Relation } from '#http/relation.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { recoveryDocument } from './document.ts';
import type { RecoveryRow } from './recovery-sql.ts';

const recovery: RecoveryRow = {
  id: 583_913,
  webhookId: 2281,
  state: 'running',
  since: new Date('2026-11-19T08:00:00Z'),
  eventsTotal: 48_120,
  eventsSeen: 20_000,
  eventsRecovered: 1_734,
  dateCreated: new Date('2026-11-20T16:05:03Z'),
  dateModified: new Date('2026-11-20T16:05:09Z'),
  dateEnded: null,
};

const webhook = { id: 2281, storeId: 1001, name: 'Orders to the warehouse', timeZone: 'Europe/Berlin' };

const example = ({ baseUrl }: Naming): Document => recoveryDocument(recovery, webhook, baseUrl);

export const recoveryRelations: readonly Relation[] = [
  {
    rel: 'recover',
    title: 'Sending what a webhook has missed',
    about:
      'A POST with {"since": date} begins a recovery: the events from then on that this webhook is sent, and that neither arrived there nor wait to be sent, are sent to it with the webhook-id that they have. It takes the time that the endpoint needs, beside live events; the answer (202) is the recovery, which tells how far it is. One at a time for each webhook.',
    paths: ['/webhooks/:webhook_id/recover'],
    makes: 'recovery',
  },
  {
    rel: 'recoveries',
    title: 'The recoveries of a webhook',
    about: 'What was recovered and is being recovered, newest first, as long as events are kept.',
    paths: ['/webhooks/:webhook_id/recoveries'],
    example: listExample('recoveries', 'The recoveries of this webhook', '/webhooks/2281/recoveries', example),
  },
  {
    rel: 'recovery',
    title: 'A recovery',
    about:
      'Of events_total events of the store since the beginning of the day (UTC) of since, events_seen were looked at, and for events_recovered of them a delivery was made. It is waiting for publishes that were under way when it was asked for, running, or finished, cancelled, or stopped because the webhook was switched off meanwhile; it can be read all the same.',
    paths: ['/webhooks/:webhook_id/recoveries/:recovery_id'],
    example,
  },
  {
    rel: 'cancel',
    title: 'Cancelling a recovery',
    about:
      'A POST ends a recovery that is waiting or running; the link is there as long. No more deliveries are made, those that were made are sent, and the recovery can still be read.',
    paths: ['/webhooks/:webhook_id/recoveries/:recovery_id/cancel'],
  },
];
