/** Validates e-mail addresses. */
import { isLonger } from './text.ts';

/** In code points, as PostgreSQL counts. */
export const EMAIL_LENGTH_MAX = 254;

/** One `@` with text on both sides and no spaces or control characters; only a delivered mail shows that an address exists. */
const EMAIL = /^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u;

export function isEmail(text: string): boolean {
  return !isLonger(text, EMAIL_LENGTH_MAX) && EMAIL.test(text);
}
