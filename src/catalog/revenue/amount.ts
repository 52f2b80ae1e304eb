/** What a subscription takes each time, from the transaction it is made after. */
import { embeddedUnder, isObject, type JsonObject } from '../document.ts';
import { plus, readDecimal, times, ZERO, type Decimal } from './decimal.ts';

const ONE: Decimal = { digits: 1n, places: 0 };

const objectsUnder = (resource: JsonObject, relation: string): JsonObject[] => {
  const value = embeddedUnder(resource, relation);
  return Array.isArray(value) ? (value as readonly JsonObject[]).filter(isObject) : [];
};

const decimalOf = (resource: JsonObject, name: string, absent: Decimal): Decimal | undefined => {
  const value = resource[name];
  return value === undefined || value === null ? absent : readDecimal(value);
};

/** (price + what its options add) × quantity; undefined where one of them is no number. */
const amountOfItem = (item: JsonObject): Decimal | undefined => {
  let each = decimalOf(item, 'price', ZERO);
  for (const option of objectsUnder(item, 'item_options')) {
    const change = decimalOf(option, 'price_mod', ZERO);
    each = each && change && plus(each, change);
  }
  const quantity = decimalOf(item, 'quantity', ONE);
  return each && quantity && times(each, quantity);
};

/**
 * The amount of one period: of the template's items where it embeds any, because they alone are what comes again; else its
 * total_item_price, else its total_order. Undefined where that is no number.
 */
export const amountOf = (template: JsonObject): Decimal | undefined => {
  const items = objectsUnder(template, 'items');
  if (items.length === 0) {
    return readDecimal(template['total_item_price'] ?? template['total_order'] ?? 0);
  }
  return items
    .map(amountOfItem)
    .reduce((sum, amount) => sum && amount && plus(sum, amount), ZERO as Decimal | undefined);
};
