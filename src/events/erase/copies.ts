/** Copies of a customer in what other resources embed. */
import type { Value } from '#hypermedia/document.ts';

type JsonObject = { readonly [name: string]: Value };

const isObject = (value: Value | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isNamed = (name: string): boolean => name === 'customer' || name.endsWith(':customer');

/** What every body with a copy of the customer says somewhere; an id may be published as a number or as a text. */
export const needlesOf = (id: string): string[] => {
  const asText = `"id":${JSON.stringify(id)}`;
  return /^(?:0|[1-9][0-9]*)$/.test(id) ? [asText, `"id":${id}`] : [asText];
};

/** The JSON text without the customer, wherever it is embedded under `customer`; undefined where it is nowhere. */
export const withoutCustomer = (body: string, id: string): string | undefined => {
  let found = false;
  const isCopy = (value: Value | undefined): boolean => {
    const given = isObject(value) ? value['id'] : undefined;
    const isTheirs = (typeof given === 'string' || typeof given === 'number') && String(given) === id;
    found ||= isTheirs;
    return isTheirs;
  };
  const embeddedWithout = (all: JsonObject): JsonObject =>
    Object.fromEntries(
      Object.entries(all).flatMap(([name, value]): [string, Value][] => {
        if (!isNamed(name)) return [[name, strip(value)]];
        if (Array.isArray(value)) return [[name, (value as Value[]).filter((one) => !isCopy(one)).map(strip)]];
        return isCopy(value) ? [] : [[name, strip(value)]];
      }),
    );
  const strip = (value: Value): Value => {
    if (Array.isArray(value)) return (value as Value[]).map(strip);
    if (!isObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, member]): [string, Value] => [
        name,
        name === '_embedded' && isObject(member) ? embeddedWithout(member) : strip(member),
      ]),
    );
  };
  const stripped = strip(JSON.parse(body) as Value);
  return found ? JSON.stringify(stripped) : undefined;
};
