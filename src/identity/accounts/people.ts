/** What verifies people and their browsers: the parts that all pages of people use, and the frame of the forms that ask for the password. */
import { passkeyScriptElements } from '#hypermedia/shell.ts';
import type { Markup } from '#hypermedia/markup.ts';
import { htmlAnswer } from '#http/answers.ts';
import { rootOf } from '#http/root.ts';
import type { RawRequest, RawResponse } from '#http/route.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { Credentials } from './accounts-sql.ts';
import { createSecurityMails, type SecurityMails } from './account-mails.ts';
import { createAttempts, createDevices, type Attempts, type Devices } from './attempts.ts';
import { createPasskeys, type Passkeys } from './factors/passkeys.ts';
import { createSecondFactor, type SecondFactor } from './factors/second-factor.ts';
import { createStepUp, type StepUp } from './factors/step-up.ts';
import {
  signInAdvice,
  tooManyAnswer,
  WRONG_PASSWORD,
  type FormFault,
  type FormHandlers,
  type Refused,
} from './page-kit.ts';
import { createPasswords, type PasswordCost, type Passwords } from './passwords.ts';
import { createSessions, type Session, type Sessions } from './sessions.ts';
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
  const passkeys = createPasskeys(runtime);
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

/**
 * Creates both handlers of a form that asks for the password: GET renders it with its nonce, POST checks the nonce, `review`s the other
 * fields and then verifies the password, so that a mistake in them is no attempt.
 */
export function passwordPage(
  { config }: Pick<Runtime, 'config'>,
  { factors: { attempts, advice } }: People,
  signedIn: SignedIn,
  form: {
    /** The name of the form, to which its nonce is bound. */
    name: string;
    render: (session: Session, view: { nonce: string; fault: FormFault | undefined; typed: string }) => Promise<string>;
    review?: (request: RawRequest, session: Session) => Promise<Refused | undefined>;
    /** Returns undefined if the password has changed since it was verified. */
    submit: (request: RawRequest, session: Session, user: Credentials) => Promise<RawResponse | undefined>;
  },
): FormHandlers {
  const bound = [form.name] as const;
  const shown = async (session: Session, status = 200, { fault, typed = '' }: Refused = {}) =>
    htmlAnswer(status, await form.render(session, { nonce: signedIn.nonce(session, bound), fault, typed }));
  return {
    show: signedIn.page((_request, session) => shown(session)),
    submit: signedIn.passwordForm(
      () => bound,
      async (request, session) => {
        const refused = await form.review?.(request, session);
        if (refused !== undefined) return shown(session, 422, refused);
        const { email } = session;
        const attempt = await attempts(request, { email, password: request.form.get('current') ?? '' });
        if (attempt.kind === 'too many') return tooManyAnswer(rootOf(config.authUrl), attempt, advice);
        const done = attempt.kind === 'right' ? await form.submit(request, session, attempt.user) : undefined;
        return done ?? shown(session, 422, { fault: WRONG_PASSWORD, typed: request.form.get('email') ?? '' });
      },
    ),
  };
}
