/** Verifies a second factor that a person submits: a passkey, a code of the authenticator app, or a recovery code. */
import type { Sql } from '#db/pool.ts';
import type { Sealer } from '#db/seal.ts';
import { VERIFICATION_FIELDS } from '#http/pages/form-post.ts';
import type { RawRequest } from '#http/route.ts';
import type { Mailer } from '#mail/mail.ts';
import type { Credentials } from '../accounts-sql.ts';
import { originOf, recordAuditEntry } from '../audit/audit.ts';
import type { Devices } from '../device.ts';
import type { Throttle } from '../throttle/throttle.ts';
import { acceptCode, CODE_PATTERN } from './authenticator-app.ts';
import { findFactors, type Factors } from './factors-sql.ts';
import { recoveryCodeUsedMail } from '../account-mails.ts';
import type { Passkeys } from './passkeys.ts';
import { acceptRecoveryCode } from './recovery-codes.ts';

export type Verified = { kind: 'right' } | { kind: 'wrong' } | { kind: 'too many'; retryAfterSeconds: number };

type Verifying = Pick<RawRequest, 'address' | 'headers' | 'cookies' | 'now' | 'form'>;

export type SecondFactor = {
  /** Verifies the fields `verification_code` and `verification_passkey`. A code is accepted once. */
  verify: (request: Verifying, user: Credentials) => Promise<Verified>;
};

export function hasSecondFactor({ passkeys, hasApp }: Factors): boolean {
  return hasApp || passkeys.length > 0;
}

export function createSecondFactor(deps: {
  sql: Sql;
  sealer: Sealer;
  passkeys: Passkeys;
  throttle: Throttle;
  devices: Devices;
  /** Undefined if mail is not configured. */
  mailer: Mailer | undefined;
  authUrl: string;
}): SecondFactor {
  const { sql, sealer, passkeys, throttle, devices, mailer, authUrl } = deps;

  const acceptRecovery = async (request: Verifying, user: Credentials, code: string): Promise<boolean> => {
    if (!(await acceptRecoveryCode(sql, user.id, code))) return false;
    const origin = originOf(request);
    await recordAuditEntry(sql, { action: 'recovery_code_used', userId: user.id, origin, now: request.now });
    const { recoveryCodes } = await findFactors(sql, user.id);
    mailer?.send(recoveryCodeUsedMail({ to: user.email, left: recoveryCodes, authUrl }));
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
    verify: async (request, user) => {
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
