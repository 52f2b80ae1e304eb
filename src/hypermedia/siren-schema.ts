/** The JSON Schema of Siren entities, which have the same structure for every resource. */
import { referTo, type JsonSchema } from './document-schema.ts';

const TEXT: JsonSchema = { type: 'string' };
const TEXTS: JsonSchema = { type: 'array', items: TEXT };

const arrayOf = (required: readonly string[], properties: Readonly<Record<string, JsonSchema>>): JsonSchema => ({
  type: 'array',
  items: { type: 'object', required, properties },
});

const fields = arrayOf(['name', 'class', 'type'], {
  name: TEXT,
  class: TEXTS,
  type: TEXT,
  title: TEXT,
  min: { type: 'number' },
  max: { type: 'number' },
  value: { description: 'A text, a number, or the choices with their value and whether it is selected.' },
});

export const sirenComponents: Readonly<Record<string, JsonSchema>> = {
  siren_entity: {
    type: 'object',
    required: ['class', 'properties'],
    properties: {
      class: TEXTS,
      rel: TEXTS,
      title: TEXT,
      properties: { type: 'object', additionalProperties: true },
      entities: { type: 'array', items: referTo('siren_entity') },
      links: arrayOf(['rel', 'href'], { rel: TEXTS, href: TEXT, title: TEXT, type: TEXT }),
      actions: arrayOf(['name', 'title', 'method', 'href'], {
        name: TEXT,
        title: TEXT,
        method: { type: 'string', enum: ['POST', 'PATCH', 'PUT', 'DELETE'] },
        href: TEXT,
        type: TEXT,
        fields,
      }),
    },
  },
};
