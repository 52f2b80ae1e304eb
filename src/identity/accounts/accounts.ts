/** Creates the pages and operations of accounts, what verifies people, and the purges from their dependencies. */
import type { Changelog } from '#changelog/changelog.ts';
import type { Sql } from '#db/pool.ts';
import { redirectAnswer } from '#http/answers.ts';
import { rootOf } from '#http/root.ts';
import type { Operation } from '#http/operation.ts';
import type { RawHandler } from '#http/route.ts';
import type { Sealer } from '#db/seal.ts';
import type { Keys } from '#core/keys.ts';
import type { Log } from '#core/log.ts';
import type { Mailer } from '#mail/mail.ts';
import { browsersSection, createAccount, createBrowsers, type AccountSection } from './account-page.ts';
import type { EraseUnverified, EraseUserData } from './user-erasure.ts';
import { createUserOperations } from './users-api.ts';
import { createSecurity, type Security } from './factors/security.ts';
import { createConfirmation, createStepUp, type StepUp } from './factors/step-up.ts';
import { createChangeEmail, type ChangeEmail } from './change-email.ts';
import { createChange, type EndGrants } from './password-change.ts';
import { createForgot, createLinks, createReset } from './password-reset.ts';
import type { Passwords } from './passwords.ts';
import type { SecurityMails } from './account-mails.ts';
import type { Sessions } from './sessions.ts';
import { createFinish, createSignIn, createSignInPages } from './sign-in.ts';
import { createAttemptCookies, createExternalSignIn, type ExternalSignIn } from './external/external-sign-in.ts';
import { createProvider, type OpenIdProvider } from './external/providers.ts';
import { createPendingSignIns, createVerifiedIdentities, type PendingSignIns } from './signed-tokens.ts';
import { createLeave, leaveSection, type ExportPart, type Leave } from './leave.ts';
import { createSignUp, type SignUp } from './sign-up.ts';
import { forVerified, type SignedIn } from './signed-in.ts';
import type { Throttle } from './throttle/throttle.ts';
import type { Markup } from '#hypermedia/markup.ts';
import { passkeyScriptElements } from '#hypermedia/scripts.ts';
import { createAttempts, createDevices, type Attempts, type Devices } from './attempts.ts';
import { signInAdvice } from './page-kit.ts';
import { createPasskeys, type Passkeys } from './factors/passkeys.ts';
import { createSecondFactor, type SecondFactor } from './factors/second-factor.ts';
import { purgesOf, type Purge } from '#db/purges.ts';

export type Accounts = {
  signIn: ReturnType<typeof createSignIn>;
  externalSignIn: ExternalSignIn;
  account: RawHandler;
  browsers: Record<'end' | 'endOthers', RawHandler>;
  /** Redirects a signed-in user to their start page. */
  startPage: RawHandler;
  email: ChangeEmail;
  signUp: SignUp;
  leave: Leave;
  password: Record<'change' | 'forgot' | 'reset', Record<'show' | 'submit', RawHandler>>;
  security: Security;
  confirmation: RawHandler;
  users: Record<'list' | 'create' | 'read' | 'remove', Operation>;
};

export type AccountsDeps = {
  sql: Sql;
  changelog: Changelog;
  passwords: Passwords;
  sessions: Sessions;
  signedIn: SignedIn;
  throttle: Throttle;
  factors: SecondFactors;
  sealer: Sealer;
  /** Undefined if mail is not configured. */
  mailer: Mailer | undefined;
  securityMails: SecurityMails | undefined;
  /** Sections of the account page from other modules, in display order. */
  sections: readonly AccountSection[];
  /**
   * Returns the CSP `form-action` sources that sign-in needs besides its own origin if the page at `returnTo` redirects
   * to another origin.
   */
  formTargets: (returnTo: string) => Promise<readonly string[]>;
  /** Returns the path of the user's start page. */
  startPathOf: (userId: number) => Promise<string>;
  endGrants: EndGrants;
  eraseUserData: EraseUserData;
  eraseUnverified: EraseUnverified;
  /** Parts of the export from other modules, by its member. */
  exportParts: Readonly<Record<string, ExportPart>>;
  passwordResetMinutes: number;
  emailConfirmHours: number;
  emailUndoDays: number;
  /** Whether people may create accounts themselves. */
  allowsSignUp: boolean;
  /** Whether users may create sandbox stores. */
  allowsSandboxes: boolean;
  signUpMinutes: number;
  openIdProviders: readonly OpenIdProvider[];
  /** Returns the CSP `form-action` sources of a form whose response redirects to another site. */
  formTargetsOf: (address: string) => readonly string[];
  /** Returns the keys of a purpose, 32 bytes each. */
  derive: (purpose: string) => Keys;
  baseUrl: string;
  authUrl: string;
  log: Log;
};

export function createAccounts(deps: AccountsDeps): Accounts {
  const { sql, authUrl } = deps;
  const root = rootOf(authUrl);
  const links = createLinks({ sql, authUrl, lifetimeMinutes: deps.passwordResetMinutes });
  const openIdProviders = deps.openIdProviders.map((provider) => createProvider(provider, deps));
  const external = {
    openIdProviders,
    providers: openIdProviders.map(({ name, issuer }) => ({ name, issuer, formTargets: deps.formTargetsOf(issuer) })),
    attemptCookies: createAttemptCookies({ keys: deps.derive('external sign-in'), authUrl }),
    verifiedIdentities: createVerifiedIdentities(deps.derive('verified identity')),
  };
  const all = { ...deps, ...deps.factors, ...external, root, links };
  const pages = createSignInPages(all);
  const finish = createFinish(all, pages);
  const forVerifiedOnly = { ...all, signedIn: forVerified(deps.signedIn, authUrl) };
  return {
    signIn: createSignIn({ ...all, pages, finish }),
    externalSignIn: createExternalSignIn({ ...all, pages, finish }),
    account: createAccount({ ...all, sections: [browsersSection(all), ...deps.sections, leaveSection()] }),
    browsers: createBrowsers(all),
    security: createSecurity(forVerifiedOnly),
    confirmation: createConfirmation(all),
    startPage: deps.signedIn.page(async (_request, { userId }) => redirectAnswer(await deps.startPathOf(userId))),
    email: createChangeEmail(forVerifiedOnly),
    signUp: createSignUp(all),
    leave: createLeave(all),
    password: { change: createChange(all), forgot: createForgot(all), reset: createReset({ ...all, pages }) },
    users: createUserOperations(all),
  };
}

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

const DAY_MS = 86_400_000;

/** A throttle bucket without a row is full. */
export function createAccountPurges({ sql, auditKeptDays }: { sql: Sql; auditKeptDays: number }): readonly Purge[] {
  return purgesOf(sql, [
    { name: 'sessions', deletes: 'session', key: 'hash', expires: 'date_expires' },
    { name: 'used_challenges', deletes: 'used_challenge', key: 'hash', expires: 'date_expires' },
    { name: 'password_resets', deletes: 'password_reset', key: 'hash', expires: 'date_expires' },
    { name: 'email_changes', deletes: 'email_change', key: 'hash', expires: 'date_undo_expires' },
    { name: 'sign_ups', deletes: 'sign_up', key: 'hash', expires: 'date_expires' },
    { name: 'throttle_buckets', deletes: 'throttle', key: 'key', expires: 'full_at' },
    { name: 'audit_entries', deletes: 'audit', key: 'id', expires: 'date_created', keptMs: auditKeptDays * DAY_MS },
  ]);
}
