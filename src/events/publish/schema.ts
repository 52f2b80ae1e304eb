/** What is told of an event to publish; request.ts judges it, with an array's faults by their places. */
import { Type } from 'typebox';
import { publishableEvents } from '#catalog/catalog.ts';
import { clearableText } from '#http/inputs.ts';
import type { Told } from '#http/operation.ts';
import type { EventLimits } from './request.ts';

const event = Type.Unsafe<string>({
  enum: publishableEvents,
  description: 'What happened. subscription_event/created only where the store has subscription_events: published.',
});

const id = Type.Unsafe<number | string>({
  anyOf: [
    { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
    { type: 'string', minLength: 1, maxLength: 64 },
  ],
  description: 'What the platform calls it.',
});

const dateModified = clearableText({
  description: 'Decides which version is the latest, where several arrive in another order.',
});

export const toldOfPublish = ({ eventsPerRequest, eventLimitBytes, eventDepth }: EventLimits): Told => ({
  itemsMax: eventsPerRequest,
  item: Type.Object(
    {
      event,
      resource: Type.Object(
        { id, date_modified: dateModified },
        {
          additionalProperties: true,
          description: `All of what it happened to, with its id and whatever else the platform says of it: at most ${eventLimitBytes / 1024} KiB of JSON, ${eventDepth} levels deep. In a form it is JSON text.`,
        },
      ),
      idempotency_key: clearableText({
        maxLength: 255,
        description:
          'A name for this event: what comes again under it within 24 hours is published once. In place of the header Idempotency-Key, which is for the whole request.',
      }),
    },
    { additionalProperties: false },
  ),
});
