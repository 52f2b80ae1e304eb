/** Random JSON texts: arbitrary ones, and near matches of a schema. A text can have what no value can: a name twice. */
import * as fc from 'fast-check';
import type { TSchema } from 'typebox';
import { anyText } from '../setup/any-text.ts';

type Schema = Readonly<{
  type?: string | readonly string[];
  enum?: readonly unknown[];
  anyOf?: readonly Schema[];
  properties?: Readonly<Record<string, Schema>>;
  required?: readonly string[];
  items?: Schema;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  readOnly?: boolean;
}>;
type Text = fc.Arbitrary<string>;

const quote = (text: string): string => JSON.stringify(text);
const object = (members: readonly (readonly [name: string, value: string])[]): string =>
  `{${members.map(([name, value]) => `${quote(name)}:${value}`).join(',')}}`;

/** Characters with a special meaning elsewhere, and texts that look like something else. */
const odd = fc.oneof(
  fc.constantFrom('', ' ', '\0', '\ud800', 'a\udc00b', '\u202e', '\ufeff', 'é', 'e\u0301', '💳', 'a'.repeat(1_001)),
  fc.constantFrom('1', '-1', 'true', 'null', '{}', '__proto__', 'toString', '../../etc', '%00', "' or 1=1 --", '<b>&'),
  fc.constantFrom('2026-13-45T99:99:99+0000', 'http://', 'http://[', '*', 'a:b', 'a,b'),
);
const texts = fc.oneof(fc.string({ maxLength: 20 }), anyText({ maxLength: 20 }), odd);
const numbers = fc.oneof(
  fc.integer().map(String),
  fc.constantFrom('0', '-0', '1e400', '-1e400', '1e-400', '0.1', '9007199254740993', '1'.repeat(400), '1E5'),
);
const scalars = fc.oneof(texts.map(quote), numbers, fc.constantFrom('null', 'true', 'false'));
const names = fc.oneof(texts, fc.constantFrom('__proto__', 'constructor', 'prototype', '_links', '_embedded', 'id'));
const nested = (levels: number): Text =>
  fc.constantFrom(`${'['.repeat(levels)}${']'.repeat(levels)}`, `${'{"a":'.repeat(levels)}0${'}'.repeat(levels)}`);

/** Any JSON. */
export const noise: Text = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    { weight: 40, arbitrary: scalars },
    { weight: 20, arbitrary: fc.array(tie('value'), { maxLength: 4 }).map((items) => `[${items.join(',')}]`) },
    { weight: 30, arbitrary: fc.array(fc.tuple(names, tie('value')), { maxLength: 4 }).map(object) },
    { weight: 10, arbitrary: fc.integer({ min: 90, max: 110 }).chain(nested) },
    // Rare, because a text of 100 KB takes ten times as long as the others.
    { weight: 1, arbitrary: nested(20_000) },
  ),
})).value;

/** Values for members whose format is not in the schema, with which a request is accepted. */
const plausible: Readonly<Record<string, readonly unknown[]>> = {
  url: ['http://127.0.0.1:9/a', 'https://127.0.0.1:9/b?c=d', null],
  query: ['zoom=items', 'fields=id,total', null],
  email: Array.from({ length: 200 }, (_, n) => `somebody${n}@example.com`),
  password: ['a long password', 'another long password'],
  event: ['transaction/created', 'customer/modified', 'subscription/created'],
  resource: [
    { id: 1, total: 3 },
    { id: 'x-1', _embedded: { 'svc:items': [{ id: 1 }] } },
  ],
  event_resource: ['transaction', null],
  events: [['transaction/created'], ['transaction/created', 'transaction/modified']],
  headers: [{ 'X-Tenant': 'a' }, null],
  name: ['A name', 'Ein Name'],
  domain: ['shop.example.com'],
  time_zone: ['Europe/Berlin', 'UTC'],
  redirect_uris: [['https://app.example.com/cb']],
  company: ['A company', null],
  contact: ['person@example.com', null],
  owner: [null],
  role: ['member', 'owner'],
  since: ['2026-11-20T16:05:03+0000'],
};

const typesOf = ({ type = [] }: Schema): readonly string[] => [type].flat();

function byType(schema: Schema, type: string): Text {
  const { minLength = 0, maxLength = 40, minimum = 0, maximum = 1_000, items = {} } = schema;
  switch (type) {
    case 'string':
      return fc.string({ minLength, maxLength: Math.min(maxLength, 40) }).map(quote);
    case 'integer':
    case 'number':
      return fc.integer({ min: minimum, max: Math.min(maximum, 2 ** 31) }).map(String);
    case 'boolean':
      return fc.constantFrom('true', 'false');
    case 'array':
      return fc.array(wanted(items), { maxLength: 3 }).map((list) => `[${list.join(',')}]`);
    case 'object':
      return members(schema);
    default:
      return fc.constant('null');
  }
}

/** Values that match a schema. */
function wanted(schema: Schema): Text {
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum.map((value) => JSON.stringify(value)));
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(wanted));
  const types = typesOf(schema);
  if (types.length === 0) return schema.properties === undefined ? noise : members(schema);
  return fc.oneof(...types.map((type) => byType(schema, type)));
}

function valueOf(name: string, schema: Schema): Text {
  const known = Object.hasOwn(plausible, name) ? plausible[name] : undefined;
  return known === undefined ? wanted(schema) : fc.constantFrom(...known.map((value) => JSON.stringify(value)));
}

const members = ({ properties = {}, required = [] }: Schema): Text =>
  fc
    .tuple(...Object.entries(properties).map(([name, schema]) => member(name, schema, required.includes(name))))
    .map((list) => object(list.filter((entry) => entry !== undefined)));

const member = (name: string, schema: Schema, isRequired: boolean) =>
  fc.oneof(
    { weight: isRequired ? 0 : 3, arbitrary: fc.constant(undefined) },
    { weight: 2, arbitrary: valueOf(name, schema).map((value) => [name, value] as const) },
  );

/** Values that match the schema, with up to three members damaged, added or given twice. */
function nearly(schema: Schema): Text {
  const known = Object.keys(schema.properties ?? {});
  const name = known.length === 0 ? names : fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...known) }, names);
  return fc
    .tuple(wanted(schema), fc.array(fc.tuple(name, fc.oneof(scalars, noise)), { maxLength: 3 }))
    .map(([good, spoilt]) =>
      good.endsWith('}')
        ? `${good.slice(0, -1)}${good === '{}' || spoilt.length === 0 ? '' : ','}${object(spoilt).slice(1)}`
        : good,
    );
}

/** Bodies for an operation with this `input`: matching, nearly matching, its names with any values, and any JSON. */
export function bodiesFor(input: TSchema): Text {
  const schema: Schema = input;
  const known = Object.keys(schema.properties ?? {});
  const named = fc
    .uniqueArray(fc.constantFrom(...known, 'name'), { maxLength: 6 })
    .chain((chosen) => fc.tuple(...chosen.map((name) => fc.tuple(fc.constant(name), noise))).map(object));
  return fc.oneof(
    { weight: 3, arbitrary: wanted(schema) },
    { weight: 4, arbitrary: nearly(schema) },
    { weight: 2, arbitrary: named },
    noise,
  );
}
