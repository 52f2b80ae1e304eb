/** The section `webhooks` of OpenAPI 3.1: the requests that a receiver gets. */
import type { Naming } from '#hypermedia/document.ts';
import { selectionOf } from '#hypermedia/schema.ts';
import type { SentRequests, Setting } from '../setting.ts';
import type { Json } from './input.ts';

/**
 * A tag of their own: openapi-generator makes a class for each tag of `paths`, which the class for an equal tag of `webhooks`
 * overwrites.
 */
const RECEIVING = 'Receiving';

export function receivingTag({ baseUrl }: Naming): Json {
  return { name: RECEIVING, description: `Requests that webhooks send: ${baseUrl}/docs/receiving.` };
}

const parameterName = (header: string): string => `delivery.${header.toLowerCase()}`;

/** Returns the headers of deliveries as parameters, by name. */
export function deliveryParameters({ headers }: SentRequests): Json {
  return Object.fromEntries(
    headers.map(({ name, about, type, isOptional }): [string, Json] => [
      parameterName(name),
      { name, in: 'header', description: about, required: isOptional !== true, schema: { type } },
    ]),
  );
}

const responses: Json = {
  '2XX': { description: 'Received' },
  '410': { description: 'The webhook is disabled' },
  default: { description: 'The request is sent again' },
};

/** Returns the request of each event; its body has the members that the `query` of the webhook selects. */
export function webhooksOf({ sentRequests, eventTypes }: Pick<Setting, 'sentRequests' | 'eventTypes'>): Json {
  const { headers, contentType, encryptedType } = sentRequests;
  const parameters = headers.map(({ name }) => ({ $ref: `#/components/parameters/${parameterName(name)}` }));
  return Object.fromEntries(
    eventTypes.map(({ event, when, resource: { type } }): [string, Json] => {
      const payload = {
        schema: { $ref: `#/components/schemas/${selectionOf(type)}` },
        examples: { [type]: { $ref: `#/components/examples/${type}.0` } },
      };
      const encrypted = { schema: { type: 'string', description: 'A JWE of the body, over plain http.' } };
      const post = {
        operationId: `on_${event.replace('/', '_')}`,
        summary: event,
        description: `Sent to webhooks that subscribe to ${event}: ${when}`,
        tags: [RECEIVING],
        security: [],
        parameters,
        requestBody: { required: true, content: { [contentType]: payload, [encryptedType]: encrypted } },
        responses,
      };
      return [event, { post }];
    }),
  );
}
