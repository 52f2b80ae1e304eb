/** Computes the amount of one period of a subscription from its transaction template. */
import { embeddedUnder, isObject, type JsonObject } from '../document.ts';
import { plus, readDecimal, times, ZERO, type Decimal } from './decimal.ts';

const ONE: Decimal = { digits: 1n, places: 0 };

function objectsUnder(resource: JsonObject, relation: string): JsonObject[] {
  const value = embeddedUnder(resource, relation);
  return Array.isArray(value) ? (value as readonly JsonObject[]).filter(isObject) : [];
}

function decimalOf(resource: JsonObject, name: string, absent: Decimal): Decimal | undefined {
  const value = resource[name];
  return value === undefined || value === null ? absent : readDecimal(value);
}

/** Returns (price + price changes of its options) × quantity; undefined if one of them is not a number. */
function amountOfItem(item: JsonObject): Decimal | undefined {
  let each = decimalOf(item, 'price', ZERO);
  for (const option of objectsUnder(item, 'item_options')) {
    const change = decimalOf(option, 'price_mod', ZERO);
    each = each && change && plus(each, change);
  }
  const quantity = decimalOf(item, 'quantity', ONE);
  return each && quantity && times(each, quantity);
}

/**
 * Returns the sum of the template's items, because only these recur; if it embeds none, its total_item_price, else its
 * total_order. Returns undefined if that is not a number.
 */
export function amountOf(template: JsonObject): Decimal | undefined {
  const items = objectsUnder(template, 'items');
  if (items.length === 0) {
    return readDecimal(template['total_item_price'] ?? template['total_order'] ?? 0);
  }
  return items
    .map(amountOfItem)
    .reduce((sum, amount) => sum && amount && plus(sum, amount), ZERO as Decimal | undefined);
}
