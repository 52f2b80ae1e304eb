/**
 * The Siren specification (github.com/kevinswiber/siren, README.md) as JSON Schema,
 * and stricter where the API promises more: no unknown members, no relation that is neither registered nor an address, and
 * choices for every field with a fixed set of values.
 */
import { Ajv } from 'ajv';

const text = { type: 'string' };
const uri = { type: 'string', format: 'uri' };
const texts = { type: 'array', minItems: 1, items: { type: 'string', minLength: 1 } };
const listOf = (name: string) => ({ type: 'array', items: { $ref: `#/definitions/${name}` } });

const only = (properties: Record<string, object>, required: string[]) => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});

/** The relations of the IANA registry in use. */
const REGISTERED = ['self', 'first', 'prev', 'next', 'last'];

const ANY_TEXT = ['hidden', 'text', 'search', 'tel', 'url', 'email', 'password', 'color', 'file'];
const ANY_TIME = ['datetime', 'date', 'month', 'week', 'time', 'datetime-local'];
const CHOSEN = ['checkbox', 'radio'];
const TYPES = [...ANY_TEXT, ...ANY_TIME, ...CHOSEN, 'number', 'range'];

const scalar = { type: ['string', 'number'] };

const entity = {
  class: texts,
  title: text,
  properties: { type: 'object' },
  entities: listOf('embedded'),
  actions: listOf('action'),
  links: listOf('link'),
};

const schema = {
  ...only(entity, ['class', 'properties']),
  definitions: {
    rel: { type: 'array', minItems: 1, items: { anyOf: [uri, { enum: REGISTERED }] } },
    link: only({ rel: { $ref: '#/definitions/rel' }, href: uri, title: text, type: text }, ['rel', 'href']),
    // An entity with `href` would be a link, and its other members would be lost.
    embedded: only({ ...entity, rel: { $ref: '#/definitions/rel' } }, ['class', 'rel', 'properties']),
    action: {
      ...only(
        {
          name: text,
          title: text,
          method: { enum: ['POST', 'PATCH', 'PUT', 'DELETE'] },
          href: uri,
          type: { const: 'application/json' },
          fields: { ...listOf('field'), minItems: 1 },
        },
        ['name', 'title', 'method', 'href'],
      ),
      // Without a type, fields would be sent as a form.
      dependencies: { fields: ['type'], type: ['fields'] },
    },
    field: {
      ...only(
        {
          name: text,
          class: texts,
          type: { enum: TYPES },
          title: text,
          min: { type: 'number' },
          max: { type: 'number' },
          value: { anyOf: [scalar, listOf('choice')] },
        },
        ['name', 'class', 'type'],
      ),
      anyOf: [
        { properties: { type: { enum: CHOSEN }, value: { type: 'array', minItems: 1 } }, required: ['value'] },
        { properties: { type: { not: { enum: CHOSEN } } } },
      ],
    },
    choice: only({ title: text, value: scalar, selected: { type: 'boolean' } }, ['value']),
  },
};

const isUri = (value: string): boolean =>
  /^[a-z][a-z0-9+.-]*:[\w.~:/?#[\]@!$&'()*+,;=%-]+$/i.test(value) && URL.canParse(value);

const validate = new Ajv({
  allErrors: true,
  allowUnionTypes: true,
  strictTypes: false,
  formats: { uri: isUri },
}).compile(schema);

/** Returns every fault, by place. */
export function sirenFaults(value: unknown): string[] {
  validate(value);
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message ?? ''}`);
}
