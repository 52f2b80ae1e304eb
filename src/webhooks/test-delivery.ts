/** A sample event for a webhook, sent at once: what its endpoint answers, without waiting for something to happen. */
import { Type, type Static } from 'typebox';
import { eventsOf, resourceTypes, type ResourceType } from '#catalog/catalog.ts';
import { clearableText } from '#http/inputs.ts';
import { accepting, type Operation } from '#http/operation.ts';
import { invalid, notFound, Problem } from '#core/problem.ts';
import { keyOf, webhookOf, type WebhookDeps } from './access.ts';
import { addressOfDelivery, attemptDocument, deliveryDocument } from './history/document.ts';
import type { AttemptRow, DeliveryRow } from './history/history-sql.ts';

const EVENT_LENGTH_MAX = 100;

const testSchema = Type.Object(
  {
    event: clearableText({
      maxLength: EVENT_LENGTH_MAX,
      choices: resourceTypes.flatMap(eventsOf),
      description:
        'Under the name of which of its events it is sent, such as transaction/created. Without one it is <resource>/test.',
    }),
  },
  { additionalProperties: false },
);

type TestBody = Static<typeof testSchema>;

/** A delivery that waits for a listener, and the sample that it is about. */
type HeldSample = Pick<DeliveryRow, 'id' | 'eventId' | 'type' | 'resourceId' | 'action'>;

/** What is sent is of this resource, under the name of `action` (null: `test`); the webhook's own settings say where and how. */
type Sample = {
  shard: number;
  webhookId: number;
  storeId: number;
  type: ResourceType;
  action: string | null;
  /** It is not sent but held for the webhook's listener. */
  isHeld: boolean;
  timeZone: string;
  now: Date;
};

/** Sends it once, and tells what came of it, or of which event a delivery is held; `nowhere` is a webhook that was deleted or lost its url meanwhile. */
export type SendSample = (
  sample: Sample,
) => Promise<
  | { kind: 'sent'; attempt: AttemptRow }
  | { kind: 'held'; delivery: HeldSample }
  | { kind: 'under_way' | 'full' | 'nowhere' | 'stopping' }
>;

/** As every delivery begins. */
const PENDING = {
  status: 'pending',
  attempts: 0,
  dateNext: null,
  dateEnded: null,
  outcome: null,
  responseCode: null,
} as const;

const RETRY_AFTER_SECONDS = '5';

const conflict = (code: string, message: string): Problem => new Problem(409, { code, message });

const later = (status: number, code: string, message: string): Problem =>
  new Problem(status, { code, message }, { headers: { 'Retry-After': RETRY_AFTER_SECONDS } });

const NO_URL = 'The webhook has no url to send to: give it one first';

const hindrance = (kind: 'under_way' | 'full' | 'nowhere' | 'stopping'): Problem => {
  switch (kind) {
    case 'under_way':
      return later(429, 'too_many_requests', 'A test of this webhook is under way: wait until it was answered');
    case 'full':
      return later(
        503,
        'busy',
        'As many webhooks as possible are being tested at the moment: try again in some seconds',
      );
    case 'nowhere':
      return notFound('webhook');
    case 'stopping':
      return later(503, 'unavailable', 'The service is about to stop: try again shortly');
  }
};

/** `event` asked for, as the action of the webhook's own resource; null where nothing was. Throws a 400 for another. */
const actionOf = ({ event }: TestBody, type: ResourceType): string | null => {
  if (!event) return null;
  const events = eventsOf(type);
  if (events.includes(event)) return event.slice(type.length + 1);
  const message = `event must be one of this webhook's own resource: ${events.join(', ')}`;
  throw invalid({ code: 'invalid_value', message, field: 'event' });
};

export const createTest = (deps: WebhookDeps): Operation =>
  accepting({
    title: 'Send a sample event',
    summary:
      'Sends a made-up event to this webhook at once and once only, also while it is not active, and answers with what came back; it counts towards nothing. To a held webhook it goes when somebody listens (202)',
    input: testSchema,
    handle: async (request) => {
      const webhook = await webhookOf(deps.sql, request);
      const { storeId, eventResource: type, timeZone, isHeld } = webhook;
      if (webhook.url === null && !isHeld) throw conflict('no_url', NO_URL);
      if (type === null) {
        throw conflict('no_events', 'The webhook is for no events: choose its event_resource or events first');
      }
      const action = actionOf(request.body, type);
      const { shard, id } = keyOf(request);
      const { now } = request;
      const tried = await deps.sendSample({ shard, webhookId: id, storeId, type, action, isHeld, timeZone, now });
      switch (tried.kind) {
        case 'sent': {
          // Where people read why it failed, and what came back.
          const next = addressOfDelivery(tried.attempt.deliveryId, webhook, deps.baseUrl);
          return { status: 200, document: attemptDocument(tried.attempt, webhook, deps.baseUrl), next, done: 'sent' };
        }
        case 'held': {
          const row = { ...PENDING, ...tried.delivery, dateCreated: now };
          const location = addressOfDelivery(row.id, webhook, deps.baseUrl);
          return { status: 202, document: deliveryDocument(row, webhook, deps.baseUrl), location };
        }
        case 'under_way':
        case 'full':
        case 'nowhere':
        case 'stopping':
          throw hindrance(tried.kind);
      }
    },
  });
