/** Format and lifetime of idempotency keys. */
const KEY = /^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$/;

export function isIdempotencyKey(key: string): boolean {
  return KEY.test(key);
}

export const IDEMPOTENCY_KEY_FORM = 'must be 1 to 255 printable ASCII characters';

/** Time for which the response of a key is stored. */
export const IDEMPOTENCY_KEPT_MS = 24 * 3_600_000;

/** Returns the associated data of a sealed response: copied to another key it cannot be opened. */
export function responseBoundTo(scope: Buffer): string {
  return `idempotency:${scope.toString('hex')}`;
}
