/** Reads the actions of a Siren representation, for clients that know JSON Schema: what Siren cannot express is in the classes of a field. */
import type { JsonSchema } from './document.ts';

/** The media type to ask for. */
export const WITH_ACTIONS = 'application/vnd.siren+json';

/** A field as `siren.ts` writes it. */
type SirenField = {
  name: string;
  /** The kind, `required` and `multiple`. */
  class: readonly string[];
  type: string;
  title?: string;
  min?: number;
  max?: number;
  value?: unknown;
};

type SirenAction = Omit<OfferedAction, 'input'> & { fields?: readonly SirenField[] };

/** `input`: the JSON Schema of the body. */
export type OfferedAction = {
  name: string;
  title: string;
  method: 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  href: string;
  input: JsonSchema;
};

function valueSchema({ class: [kind], type, min, max, value }: SirenField): JsonSchema {
  if (type === 'radio' || type === 'checkbox') return { enum: (value as { value: string }[]).map((one) => one.value) };
  // The description says what the JSON contains.
  if (kind === 'json') return {};
  if (type !== 'number') return { type: 'string' };
  return { type: 'number', ...(min !== undefined && { minimum: min }), ...(max !== undefined && { maximum: max }) };
}

function fieldSchema(field: SirenField): JsonSchema {
  const one = valueSchema(field);
  const schema = field.class.includes('multiple') ? { type: 'array', items: one } : one;
  return field.title === undefined ? schema : { ...schema, description: field.title };
}

/** Returns the actions of a representation in the media type above. */
export function offeredActions(representation: string): readonly OfferedAction[] {
  const { actions = [] } = JSON.parse(representation) as { actions?: readonly SirenAction[] };
  return actions.map(({ name, title, method, href, fields = [] }) => ({
    name,
    title,
    method,
    href,
    input: {
      type: 'object',
      properties: Object.fromEntries(fields.map((field) => [field.name, fieldSchema(field)])),
      required: fields.filter((field) => field.class.includes('required')).map((field) => field.name),
      additionalProperties: false,
    },
  }));
}
