/** Wires what verifies people: passwords, second factors, and the step-up before sensitive changes. */
import type { Sql } from '#db/pool.ts';
import type { Sealer } from '#db/seal.ts';
import { rootOf } from '#http/root.ts';
import type { Markup } from '#hypermedia/markup.ts';
import { passkeyScriptElements } from '#hypermedia/scripts.ts';
import type { Mailer } from '#mail/mail.ts';
import type { Keys } from '#core/keys.ts';
import { createAttempts, type Attempts } from '../attempts.ts';
import { createDevices, type Devices } from '../device.ts';
import type { Passwords } from '../passwords.ts';
import type { Throttle } from '../throttle/throttle.ts';
import { signInAdvice } from '../page-kit.ts';
import { createPasskeys, type Passkeys } from './passkeys.ts';
import { createPendingSignIns, type PendingSignIns } from './pending-sign-in.ts';
import { createSecondFactor, type SecondFactor } from './second-factor.ts';
import { createStepUp, type StepUp } from './step-up.ts';

export type SecondFactors = {
  attempts: Attempts;
  devices: Devices;
  passkeys: Passkeys;
  pendingSignIns: PendingSignIns;
  secondFactor: SecondFactor;
  stepUp: StepUp;
  /** The script elements of pages with passkeys. */
  passkeyScripts: Markup;
  /** Advice on the page for too many attempts. */
  advice: Markup;
};

/** `derive` returns the keys of a purpose, 32 bytes each. */
export function createSecondFactors(deps: {
  sql: Sql;
  sealer: Sealer;
  passwords: Passwords;
  throttle: Throttle;
  mailer: Mailer | undefined;
  derive: (purpose: string) => Keys;
  baseUrl: string;
  authUrl: string;
}): SecondFactors {
  const { derive, baseUrl, authUrl, mailer } = deps;
  const root = rootOf(authUrl);
  const devices = createDevices({ keys: derive('device cookie'), authUrl });
  const passkeys = createPasskeys({ authUrl, keys: derive('passkey challenge') });
  const passkeyScripts = passkeyScriptElements((path) => `${rootOf(baseUrl)}${path}`);
  const advice = signInAdvice({ root, sendsMail: mailer !== undefined });
  const attempts = createAttempts({ ...deps, devices });
  const secondFactor = createSecondFactor({ ...deps, devices, passkeys });
  const pendingSignIns = createPendingSignIns(derive('pending sign-in'));
  const stepUp = createStepUp({ ...deps, attempts, secondFactor, passkeys, root, passkeyScripts, advice });
  return { attempts, devices, passkeys, pendingSignIns, secondFactor, stepUp, passkeyScripts, advice };
}
