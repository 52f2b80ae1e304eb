/** What an idempotency key may be, wherever it stands. */
const KEY = /^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$/;

export const isIdempotencyKey = (key: string): boolean => KEY.test(key);

export const IDEMPOTENCY_KEY_FORM = 'must be 1 to 255 printable ASCII characters';

/** So long is what came of a key remembered. */
export const IDEMPOTENCY_KEPT_MS = 24 * 3_600_000;

/** What an answer is sealed to: one that is copied to another key does not open there. */
export const answerBoundTo = (scope: Buffer): string => `idempotency:${scope.toString('hex')}`;
