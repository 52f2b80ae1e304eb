/**
 * The codes of a second factor (an authenticator app, TOTP of RFC 6238, and recovery codes), and the check of what a person
 * submits.
 */
import { Secret, TOTP } from 'otpauth';
import type { Queryable, Sql } from '#db/pool.ts';
import type { Sealer, Vault } from '#db/seal.ts';
import {
  consumeRecoveryCode,
  consumeStep,
  countSealedWithOtherKey,
  findApp,
  findFactors,
  listSealedWithOtherKey,
  replaceApp,
  replaceRecoveryCodes,
  replaceSecrets,
  type Factors,
} from './factors-sql.ts';
import { createHash, randomBytes } from 'node:crypto';
import { VERIFICATION_FIELDS } from '#http/pages/form-post.ts';
import type { RawRequest } from '#http/route.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { Credentials } from '../accounts-sql.ts';
import { originOf, recordAuditEntry } from '../audit.ts';
import type { Devices, Throttle } from '../throttle.ts';
import { factorChangedMail } from '../account-mails.ts';
import type { Passkeys } from './passkeys.ts';

// An authenticator app (TOTP, RFC 6238): six digits, which change every 30 seconds.
const PERIOD_SECONDS = 30;
const DIGITS = 6;
const SECRET_BYTES = 20;
/** Accepts the codes of one step before and after the current one: clocks of phones differ (RFC 6238 §5.2). */
const SKEW_STEPS = 1;

const CODE_PATTERN = /^\d{6}$/;

function secretBoundTo(userId: number): string {
  return `authenticator-app:${userId}`;
}

const totpOf = (secret: string, account?: { issuer: string; label: string }): TOTP =>
  new TOTP({
    ...account,
    algorithm: 'SHA1',
    digits: DIGITS,
    period: PERIOD_SECONDS,
    secret: Secret.fromBase32(secret),
  });

/** Returns a new secret in base 32. */
export function createSecret(): string {
  return new Secret({ size: SECRET_BYTES }).base32;
}

/** Returns the `otpauth:` address that apps read from a QR code. */
export function addressOf(secret: string, account: { issuer: string; label: string }): string {
  return totpOf(secret, account).toString();
}

/** Returns the time step of a code; undefined if it is not the code of a step that is accepted now. */
function stepOf(secret: string, code: string, now: Date): number | undefined {
  const delta = totpOf(secret).validate({ token: code, timestamp: now.getTime(), window: SKEW_STEPS });
  return delta === null ? undefined : Math.floor(now.getTime() / 1_000 / PERIOD_SECONDS) + delta;
}

/** Stores the secret if the code belongs to it; replaces an earlier app. The code cannot be used again. */
export async function storeApp(
  sql: Queryable,
  sealer: Sealer,
  { userId, secret, code, now }: { userId: number; secret: string; code: string; now: Date },
): Promise<boolean> {
  const lastStep = stepOf(secret, code, now);
  if (lastStep === undefined) return false;
  await replaceApp(sql, { userId, secret: sealer.seal(secret, secretBoundTo(userId)), lastStep, now });
  return true;
}

/** Returns whether the code is right; each code is accepted once (RFC 6238 §5.2). */
async function acceptCode(
  sql: Queryable,
  sealer: Sealer,
  { userId, code, now }: { userId: number; code: string; now: Date },
): Promise<boolean> {
  const sealed = await findApp(sql, userId);
  if (sealed === undefined) return false;
  const step = stepOf(sealer.open(sealed, secretBoundTo(userId)), code, now);
  return step !== undefined && consumeStep(sql, { userId, step });
}

/** Recovery codes of a person, each of which replaces a lost factor once. */
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

export type Verified = { kind: 'right' } | { kind: 'wrong' } | { kind: 'too many'; retryAfterSeconds: number };

type Verifying = Pick<RawRequest, 'address' | 'headers' | 'cookies' | 'now' | 'form'>;

export function hasSecondFactor({ passkeys, hasApp }: Factors): boolean {
  return hasApp || passkeys.length > 0;
}

export type SecondFactor = ReturnType<typeof createSecondFactor>;

export function createSecondFactor(
  { sql, sealer, mailer, config: { authUrl } }: Runtime,
  { passkeys, throttle, devices }: { passkeys: Passkeys; throttle: Throttle; devices: Devices },
) {
  const acceptRecovery = async (request: Verifying, user: Credentials, code: string): Promise<boolean> => {
    if (!(await consumeRecoveryCode(sql, user.id, hashOf(code)))) return false;
    const origin = originOf(request);
    await recordAuditEntry(sql, { action: 'recovery_code_used', userId: user.id, origin, now: request.now });
    const { recoveryCodes } = await findFactors(sql, user.id);
    const what = `a recovery code was used; ${recoveryCodes} are left.`;
    mailer?.send(factorChangedMail({ to: user.email, what, authUrl }));
    return true;
  };

  const accept = async (request: Verifying, user: Credentials): Promise<boolean> => {
    const { form, now } = request;
    const passkey = form.get(VERIFICATION_FIELDS.passkey) ?? '';
    if (passkey !== '') return (await passkeys.accept(sql, passkey, now)) === user.id;
    const code = (form.get(VERIFICATION_FIELDS.code) ?? '').trim();
    const digits = code.replaceAll(/\s/g, '');
    if (CODE_PATTERN.test(digits)) return acceptCode(sql, sealer, { userId: user.id, code: digits, now });
    return acceptRecovery(request, user, code);
  };

  return {
    /** Verifies the fields `verification_code` and `verification_passkey`. A code is accepted once. */
    verify: async (request: Verifying, user: Credentials): Promise<Verified> => {
      const { now } = request;
      // The person knows the password already. A browser that has signed in before has its own bucket, so another one cannot use
      // up its attempts.
      const device = devices.recognize(request, user);
      const bucket =
        device === undefined
          ? ({ limit: 'codes of account', subject: String(user.id) } as const)
          : ({ limit: 'codes by device', subject: device } as const);
      const taken = await throttle.take([bucket], now);
      if (!taken.allowed) return { kind: 'too many', retryAfterSeconds: taken.retryAfterSeconds };
      if (await accept(request, user)) {
        await taken.giveBack();
        return { kind: 'right' };
      }
      const origin = originOf(request);
      await recordAuditEntry(sql, { action: 'second_factor_failed', userId: user.id, origin, now });
      return { kind: 'wrong' };
    },
  };
}

export function createAppVault(sql: Sql): Vault {
  return {
    name: 'authenticator apps',
    count: (keyId) => countSealedWithOtherKey(sql, keyId),
    page: async ({ keyId, after = '0', limitRows }) => {
      const rows = await listSealedWithOtherKey(sql, { keyId, after: Number(after), limitRows });
      return rows.map(({ userId, secret }) => {
        return { id: String(userId), boundTo: secretBoundTo(userId), envelopes: [secret] };
      });
    },
    replace: async (rows) => {
      const written = await replaceSecrets(
        sql,
        rows.map(({ id, envelopes: [before = null], renewed: [after = null] }) => {
          return { userId: Number(id), before, after };
        }),
      );
      return written.map(String);
    },
  };
}
