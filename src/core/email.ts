/** What an e-mail address may look like, wherever one is taken. */
import { isLonger } from './length.ts';

/** In code points, as PostgreSQL counts. */
export const EMAIL_LENGTH_MAX = 254;

/** One `@` with something on both sides and no blank or control character: only a mail that arrives proves more. */
const EMAIL = /^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u;

export const isEmail = (text: string): boolean => !isLonger(text, EMAIL_LENGTH_MAX) && EMAIL.test(text);
