/** Integers for compilers of clients, which write a 32-bit type unless the schema has a format. */
import type { Value } from '#hypermedia/document.ts';
import type { Json } from './input.ts';

/** Largest value of a 32-bit integer. */
const INT32_MAX = 2 ** 31 - 1;

const isExample = (name: string): boolean => name === 'example' || name === 'examples';

/** Returns a schema for each type of a union: generators lose the format of a union. */
const alternatives = (types: readonly Value[]): Value[] =>
  types.map((type) => (type === 'integer' ? { type, format: 'int64' } : { type }));

/**
 * Returns a part of the description with `format: int64` for every integer that may be larger than 32 bits, such as ids,
 * which are below 2^53.
 */
export function widenIntegers(part: Json): Json {
  const widened = Object.fromEntries(
    Object.entries(part).map(([name, member]) => [name, isExample(name) ? member : widenMember(member)]),
  );
  const { type, ...rest } = widened;
  if (Number(rest['maximum'] ?? Infinity) <= INT32_MAX) return widened;
  const types: readonly Value[] = Array.isArray(type) ? type : [type ?? null];
  if (!types.includes('integer')) return widened;
  const isUnion = types.some((one) => one !== 'integer' && one !== 'null');
  return isUnion ? { ...rest, anyOf: alternatives(types) } : { ...widened, format: 'int64' };
}

function widenMember(value: Value): Value {
  if (Array.isArray(value)) return (value as readonly Value[]).map(widenMember);
  return typeof value === 'object' && value !== null ? widenIntegers(value as Json) : value;
}
