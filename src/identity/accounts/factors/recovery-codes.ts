/** Recovery codes: ten random codes that replace a lost factor, each once. */
import { createHash, randomBytes } from 'node:crypto';
import type { Queryable } from '#db/pool.ts';
import { consumeRecoveryCode, replaceRecoveryCodes } from './factors-sql.ts';

const CODES = 10;
/** 120 bits: a plain hash suffices from 112 bits on (OWASP ASVS 5.0, 6.5.2). */
const CODE_BYTES = 15;
const GROUP = /.{6}(?!$)/g;
/** Base 32 without letters and digits that look alike (Crockford). */
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const BITS_PER_CHARACTER = 5n;

function createCode(): string {
  let bits = BigInt(`0x${randomBytes(CODE_BYTES).toString('hex')}`);
  let code = '';
  while (code.length < (CODE_BYTES * 8) / Number(BITS_PER_CHARACTER)) {
    code += ALPHABET.charAt(Number(bits % 32n));
    bits >>= BITS_PER_CHARACTER;
  }
  return code.replace(GROUP, '$&-');
}

/** Ignores case, spaces and hyphens, and reads letters that look like digits as these. */
const canonical = (code: string): string =>
  code.toLowerCase().replaceAll(/[\s-]/g, '').replaceAll('o', '0').replaceAll(/[il]/g, '1');

const hashOf = (code: string): Buffer => createHash('sha256').update(canonical(code)).digest();

/** Replaces the codes of the user and returns the new ones, which are shown once. */
export async function renewRecoveryCodes(sql: Queryable, userId: number): Promise<string[]> {
  const codes = Array.from({ length: CODES }, createCode);
  await replaceRecoveryCodes(sql, { userId, hashes: codes.map(hashOf) });
  return codes;
}

/** Returns whether the user has this unused code, and consumes it. */
export async function acceptRecoveryCode(sql: Queryable, userId: number, code: string): Promise<boolean> {
  return consumeRecoveryCode(sql, userId, hashOf(code));
}
