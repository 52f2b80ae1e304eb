/** What verifies people and their browsers: the parts that all pages of people use. */
import { passkeyScriptElements } from '#hypermedia/shell.ts';
import type { Markup } from '#hypermedia/markup.ts';
import { rootOf } from '#http/root.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { createSecurityMails, type SecurityMails } from './account-mails.ts';
import { createAttempts, createDevices, type Attempts, type Devices } from './attempts.ts';
import { createPasskeys, type Passkeys } from './factors/passkeys.ts';
import { createSecondFactor, type SecondFactor } from './factors/second-factor.ts';
import { createStepUp, type StepUp } from './factors/step-up.ts';
import { signInAdvice } from './page-kit.ts';
import { createPasswords, type PasswordCost, type Passwords } from './passwords.ts';
import { createSessions, type Sessions } from './sessions.ts';
import { createSignedIn, type SignedIn } from './signed-in.ts';
import { createThrottle, type Throttle } from './throttle.ts';

/** What checks the proofs of a person or a browser: password, passkey, code, and the cookie of a known device. */
export type SecondFactors = {
  attempts: Attempts;
  devices: Devices;
  passkeys: Passkeys;
  secondFactor: SecondFactor;
  stepUp: StepUp;
  /** The script elements of pages with passkeys. */
  passkeyScripts: Markup;
  /** Advice on the page for too many attempts. */
  advice: Markup;
};

/** Everything that a page needs to know who its visitor is, and to ask them again. */
export type People = {
  passwords: Passwords;
  sessions: Sessions;
  throttle: Throttle;
  factors: SecondFactors;
  signedIn: SignedIn;
  /** The same pages and forms, for people whose e-mail address is verified. */
  verified: SignedIn;
  /** Undefined if mail is not configured. */
  securityMails: SecurityMails | undefined;
};

function createFactors(
  runtime: Runtime,
  { passwords, throttle }: Pick<People, 'passwords' | 'throttle'>,
): SecondFactors {
  const { config, derive, mailer, sql } = runtime;
  const { baseUrl, authUrl } = config;
  const devices = createDevices({ keys: derive('device cookie'), authUrl });
  const passkeys = createPasskeys({ authUrl, keys: derive('passkey challenge') });
  const passkeyScripts = passkeyScriptElements((path) => `${rootOf(baseUrl)}${path}`);
  const advice = signInAdvice({ root: rootOf(authUrl), sendsMail: mailer !== undefined });
  const attempts = createAttempts({ sql, passwords, throttle, devices });
  const secondFactor = createSecondFactor(runtime, { passkeys, throttle, devices });
  const stepUp = createStepUp(runtime, { attempts, secondFactor, passkeys, passkeyScripts, advice });
  return { attempts, devices, passkeys, secondFactor, stepUp, passkeyScripts, advice };
}

/** `cost`: of new password hashes. */
export function createPeople(runtime: Runtime, cost: PasswordCost): People {
  const { config, derive } = runtime;
  const { authUrl, accounts } = config;
  const passwords = createPasswords({ hashesAtOnce: accounts.passwordHashesAtOnce, cost });
  const sessions = createSessions(runtime);
  const throttle = createThrottle(runtime);
  const factors = createFactors(runtime, { passwords, throttle });
  const { devices, stepUp } = factors;
  const checks = { sessions, authUrl, nonceKeys: derive('form nonce'), stepUp };
  const signedIn = createSignedIn(checks);
  const verified = createSignedIn({ ...checks, isForVerified: true });
  const securityMails = createSecurityMails(runtime, { devices, throttle });
  return { passwords, sessions, throttle, factors, signedIn, verified, securityMails };
}
