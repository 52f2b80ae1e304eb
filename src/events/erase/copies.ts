/** Finds and removes copies of a customer that other resources embed. */
import { isObject, type JsonObject } from '#catalog/document.ts';
import { parseExact } from '#core/exact-number.ts';
import { isNumber, type Value } from '#hypermedia/document.ts';

const isCustomerRelation = (name: string): boolean => name === 'customer' || name.endsWith(':customer');

/** Returns texts of which every body with a copy contains one; an id may be published as a number or as a string. */
export function needlesOf(id: string): string[] {
  const asText = `"id":${JSON.stringify(id)}`;
  return /^(?:0|[1-9][0-9]*)$/.test(id) ? [asText, `"id":${id}`] : [asText];
}

/** Returns the JSON text without the customer, wherever it is embedded under `customer`; undefined if it contains no copy. */
export function withoutCustomer(body: string, id: string): string | undefined {
  let found = false;
  const isCopy = (value: Value | undefined): boolean => {
    const copyId = isObject(value) ? value['id'] : undefined;
    const isMatch = (typeof copyId === 'string' || isNumber(copyId)) && String(copyId) === id;
    found ||= isMatch;
    return isMatch;
  };
  const embeddedWithout = (all: JsonObject): JsonObject =>
    Object.fromEntries(
      Object.entries(all).flatMap(([name, value]): [string, Value][] => {
        if (!isCustomerRelation(name)) return [[name, strip(value)]];
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
  const stripped = strip(parseExact(body) as Value);
  return found ? JSON.stringify(stripped) : undefined;
}
