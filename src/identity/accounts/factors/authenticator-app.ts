/** Codes of an authenticator app (TOTP, RFC 6238): six digits, which change every 30 seconds. */
import { Secret, TOTP } from 'otpauth';
import type { Queryable } from '#db/pool.ts';
import type { Sealer } from '#db/seal.ts';
import { consumeStep, findApp, replaceApp } from './factors-sql.ts';

const PERIOD_SECONDS = 30;
const DIGITS = 6;
const SECRET_BYTES = 20;
/** Accepts the codes of one step before and after the current one: clocks of phones differ (RFC 6238 §5.2). */
const SKEW_STEPS = 1;

export const CODE_PATTERN = /^\d{6}$/;

export function secretBoundTo(userId: number): string {
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
export async function acceptCode(
  sql: Queryable,
  sealer: Sealer,
  { userId, code, now }: { userId: number; code: string; now: Date },
): Promise<boolean> {
  const sealed = await findApp(sql, userId);
  if (sealed === undefined) return false;
  const step = stepOf(sealer.open(sealed, secretBoundTo(userId)), code, now);
  return step !== undefined && consumeStep(sql, { userId, step });
}
