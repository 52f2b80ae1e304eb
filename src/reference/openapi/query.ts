/** Query parameters of an operation in OpenAPI, with the values that it accepts. */
import type { Comparison } from '#core/listing.ts';
import { operatorsOf } from '#hypermedia/filter.ts';
import { comparableOf, type MethodDoc } from '../relation-docs.ts';
import { aboutModifier } from '../reference-words.ts';
import type { Json } from './input.ts';

const text = (pattern: string, others: Json = {}): Json => ({ type: 'string', pattern: `^${pattern}$`, ...others });

/** Returns the pattern of 1 to `max` elements, separated by commas. */
const listPattern = (element: string, max: number): string => `${element}(?:,${element}){0,${max - 1}}`;

const choice = (names: readonly string[]): string => `(?:${names.join('|')})`;

/** A property that a publisher has chosen. */
const ANY_NAME = String.raw`[^/\s:,=\u0000-\u001f\u007f-\u009f][^\s:,=\u0000-\u001f\u007f-\u009f]{0,63}`;
const ANY_TEXT = text(String.raw`[^\u0000]*`, { maxLength: 1000 });

/** The days of every year from 1000 to 2999: of months of 28, 30 and 31 days, then of leap years. */
const DATE = choice([
  String.raw`[12]\d{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])`,
  String.raw`[12]\d{3}-(?:0[13-9]|1[0-2])-(?:29|30)`,
  String.raw`[12]\d{3}-(?:0[13578]|1[02])-31`,
  String.raw`[12]\d(?:0[48]|[2468][048]|[13579][26])-02-29`,
  '(?:1[26]|2[048])00-02-29',
]);
const TIME = String.raw`(?:T(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?:Z|[+-](?:0\d|1[0-3]):?[0-5]\d)?)?`;

/** Values of filters, by how they compare. An empty one means "not set". */
const VALUES: Readonly<Record<Exclude<Comparison, 'none'>, Json>> = {
  text: ANY_TEXT,
  filterOnly: ANY_TEXT,
  number: text(String.raw`(?:-?\d{1,15}(?:\.\d{1,10})?)?`),
  boolean: { type: 'string', enum: ['1', '0', 'true', 'false', ''] },
  date: text(`(?:${DATE}${TIME})?`),
};

/** Returns the values of the parameters that select and sort. */
function modifierSchemas({ properties, isOpen, selects }: MethodDoc): Readonly<Record<string, Json>> {
  const comparable = comparableOf({ properties });
  const sortable = comparable.filter((name) => properties[name] !== 'filterOnly');
  const sorted = isOpen ? ANY_NAME : choice(sortable);
  return {
    offset: { type: 'integer', minimum: 0, maximum: 10 ** 15 - 1, default: 0 },
    limit: { type: 'integer', minimum: 1, maximum: 300, default: 20 },
    order: text(listPattern(`${sorted}(?: (?:asc|desc))?`, 5)),
    fields: text(listPattern(selects.length === 0 ? ANY_NAME : choice(selects), 100)),
    period: { type: 'string', enum: ['24h', '7d', '30d'], default: '24h' },
    zoom: text(listPattern('[a-z_]+(?::[a-z_]+){0,3}', 50)),
  };
}

const query = (name: string, description: string, schema: Json = { type: 'string' }): Json => ({
  name,
  in: 'query',
  description,
  schema,
});

export function queryParameters(methodDoc: MethodDoc): Json[] {
  const { modifiers, properties } = methodDoc;
  const schemas = modifierSchemas(methodDoc);
  return [
    ...modifiers.map((name) => query(name, aboutModifier(name) ?? '', schemas[name])),
    ...Object.entries(properties).flatMap(([name, comparison]) =>
      comparison === 'none'
        ? []
        : [
            query(
              name,
              `Only items with this ${name}; append ${operatorsOf(comparison)
                .map((operator) => `:${operator}`)
                .join(', ')} to the name for other comparisons.`,
              VALUES[comparison],
            ),
          ],
    ),
  ];
}
