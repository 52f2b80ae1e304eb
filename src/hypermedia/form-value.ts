/** Values as forms contain them, and send them back unchanged. */
import { isScalar, type Value } from './document.ts';

const isTexts = (value: Value): value is { readonly [name: string]: string | null } =>
  !isScalar(value) &&
  !Array.isArray(value) &&
  Object.values(value).every((member) => typeof member === 'string' || member === null);

/**
 * Returns one text for a single field, a list for a field with several values. Booleans are `1` and `0`, null is the
 * empty text, an object of texts and nulls is lines of `Name: value` and `Name:`, and any other object its JSON.
 */
export function formValue(value: Value | undefined): string | readonly string[] {
  if (value === undefined || value === null) return '';
  if (Array.isArray(value)) return value.map((item: Value) => String(formValue(item)));
  if (typeof value === 'boolean') return value ? '1' : '0';
  if (isScalar(value)) return String(value);
  if (!isTexts(value)) return JSON.stringify(value);
  return Object.entries(value)
    .map(([name, text]) => (text === null ? `${name}:` : `${name}: ${text}`))
    .join('\n');
}
