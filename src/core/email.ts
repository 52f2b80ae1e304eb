/** Validates e-mail addresses. */
import { domainToASCII, domainToUnicode } from 'node:url';
import { isLegible, isLonger } from './text.ts';

/** In code points, as PostgreSQL counts. */
export const EMAIL_LENGTH_MAX = 254;

/** One `@` with text on both sides and no spaces or control characters; only a delivered mail shows that an address exists. */
const EMAIL = /^([^\s@\p{Cc}]+)@([^\s@\p{Cc}]+)$/u;

export function isEmail(text: string): boolean {
  return !isLonger(text, EMAIL_LENGTH_MAX) && EMAIL.test(text);
}

/** What the parser of hosts takes as the end of a host, or decodes. */
const NOT_IN_DOMAIN = /[/?#\\:%[\]]/;
/** RFC 5321 §4.1.2: without the quotes it is the same mailbox. */
const QUOTED = /^"([\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*)"$/;

/**
 * Returns the one spelling of the address of an account, in which it is stored and compared; undefined if the text is no address. The
 * domain is mapped by UTS 46, so that `y。example` is `y.example`, and has no dots at its end. Everything is in lower case: mail servers
 * that distinguish `Ada@` from `ada@` are unknown (RFC 5321 §2.4 discourages them), and two accounts of one mailbox would be worse.
 * Invisible characters and quotes that are needed are refused, as RFC 5321 §4.1.2 advises for new mailboxes.
 */
export function readEmail(text: string): string | undefined {
  const [, typedLocal = '', typedDomain = ''] = EMAIL.exec(text.trim()) ?? [];
  const local = QUOTED.exec(typedLocal)?.[1] ?? typedLocal;
  if (local.includes('"') || !isLegible(local)) return undefined;
  const domain = NOT_IN_DOMAIN.test(typedDomain) ? '' : domainToUnicode(domainToASCII(typedDomain)).replace(/\.+$/, '');
  const email = `${local.normalize('NFC').toLowerCase()}@${domain}`;
  return domain !== '' && isEmail(email) ? email : undefined;
}
