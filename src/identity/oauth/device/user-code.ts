/** User codes (RFC 8628 §6.1): eight letters without vowels, so that they form no words, shown as `WDJB-MJHT`. */
import { createHmac, randomInt } from 'node:crypto';
import type { Keys } from '#core/keys.ts';

const ALPHABET = 'BCDFGHJKLMNPQRSTVWXZ';
const LENGTH = 8;
const CODE = new RegExp(`^[${ALPHABET}]{${LENGTH}}$`);

export function newUserCode(): string {
  return Array.from({ length: LENGTH }, () => ALPHABET.charAt(randomInt(ALPHABET.length))).join('');
}

/** Returns the code that a person typed, in any case and with any hyphens and spaces; undefined if it cannot be one. */
export function readUserCode(typed: string): string | undefined {
  const code = typed.replaceAll(/[-\s]/g, '').toUpperCase();
  return CODE.test(code) ? code : undefined;
}

/** Returns the code as it is shown. */
export function shownUserCode(code: string): string {
  return `${code.slice(0, LENGTH / 2)}-${code.slice(LENGTH / 2)}`;
}

/**
 * Returns the HMAC-SHA256 of the code under each key, the current one first. A plain hash of 20^8 possible codes could be reversed from
 * a dump of the database within seconds.
 */
export function userCodeHashes([key, ...others]: Keys, code: string): [Buffer, ...Buffer[]] {
  const hash = (under: Buffer): Buffer => createHmac('sha256', under).update(code).digest();
  return [hash(key), ...others.map(hash)];
}
