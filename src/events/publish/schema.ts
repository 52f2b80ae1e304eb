/**
 * Schema of an event to publish, for documentation and forms; request.ts validates it and reports faults of arrays by position.
 */
import { Type } from 'typebox';
import { publishableEvents } from '#catalog/catalog.ts';
import { clearableText } from '#http/inputs.ts';
import type { InputDescription } from '#http/operation.ts';
import type { EventLimits } from './request.ts';

const describeEvent = () =>
  Type.Unsafe<string>({
    enum: publishableEvents(),
    description: 'The event type. subscription_event/created only if the store has subscription_events: published.',
  });

const id = Type.Unsafe<number | string>({
  anyOf: [
    { type: 'integer', minimum: 0 },
    { type: 'string', minLength: 1, maxLength: 64 },
  ],
  description: 'The id that the platform uses.',
});

const dateModified = clearableText({
  description:
    'Decides which version is the latest if several arrive out of order. A date such as 2026-11-20T16:05:03+0000; without an offset it is in the time zone of the store.',
});

export function describePublishInput({ eventsPerRequest, eventLimitBytes, eventDepth }: EventLimits): InputDescription {
  return {
    itemsMax: eventsPerRequest,
    item: Type.Object(
      {
        event: describeEvent(),
        resource: Type.Object(
          { id, date_modified: dateModified },
          {
            additionalProperties: true,
            description: `The complete resource, with its id and any other properties: at most ${eventLimitBytes / 1024} KiB of JSON, ${eventDepth} levels deep. JSON text in a form.`,
          },
        ),
        idempotency_key: clearableText({
          maxLength: 255,
          description:
            'An idempotency key for this event: a repetition within 24 hours is published once. Alternative to the header Idempotency-Key, which applies to the whole request.',
        }),
      },
      { additionalProperties: false },
    ),
  };
}
