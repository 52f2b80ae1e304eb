/** Decides which requests may be sent without a body. */
import type { Operation } from '../operation.ts';
import type { Method } from '../route.ts';

/**
 * Returns whether a POST may be sent without body and Content-Type: if its schema requires no member, an absent body
 * equals `{}`.
 */
export function isBodyOptional(
  method: Method,
  { input, documentedInput }: Pick<Operation, 'input' | 'documentedInput'>,
): boolean {
  if (method !== 'POST' || input === undefined || documentedInput !== undefined) return false;
  const { required = [] } = input as { required?: readonly string[] };
  return required.length === 0;
}
