/** Creates the pages and operations of accounts, and the purges of their tables. */
import { purgesOf, type Purge } from '#db/purges.ts';
import type { Sql } from '#db/pool.ts';
import { redirectAnswer } from '#http/answers.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { browsersSection, createAccount, createBrowsers, type AccountSection } from './account-page.ts';
import { createChangeEmail } from './change-email.ts';
import { createExternalSignIn } from './external/external-sign-in.ts';
import { createProvider } from './external/providers.ts';
import { createSecurity } from './factors/security.ts';
import { createConfirmation } from './factors/step-up.ts';
import { createLeave, leaveSection, type ExportParts } from './leave.ts';
import { createChange, createForgot, createLinks, createReset, type EndGrants } from './password-change.ts';
import type { People } from './people.ts';
import { createSignIn, createSignInPages, type AdmitIdentity } from './sign-in.ts';
import { createSignUp } from './sign-up.ts';
import { createPendingSignIns, createVerifiedIdentities } from './signed-tokens.ts';
import type { UserErasure } from './user-erasure.ts';
import { createUserOperations } from './users-api.ts';

/** What other modules add to accounts. */
export type AccountsDeps = {
  erasure: UserErasure;
  endGrants: EndGrants;
  exportParts: ExportParts;
  admitIdentity: AdmitIdentity;
  /** Sections of the account page, in display order. */
  sections: readonly AccountSection[];
  /** Returns the path of the user's start page. */
  startPathOf: (userId: number) => Promise<string>;
  /**
   * Returns the CSP `form-action` sources that sign-in needs besides its own origin if the page at `returnTo` redirects
   * to another origin.
   */
  formTargets: (returnTo: string) => Promise<readonly string[]>;
  /** Returns the CSP `form-action` sources of a form whose response redirects to another site. */
  formTargetsOf: (address: string) => readonly string[];
};

export function createAccounts(runtime: Runtime, people: People, deps: AccountsDeps) {
  const { config, derive } = runtime;
  const { passwords, signedIn } = people;
  const { erasure, endGrants, exportParts, formTargets, admitIdentity } = deps;
  const links = createLinks(runtime);
  const providers = config.accounts.openIdProviders.map((provider) => createProvider(provider, runtime));
  const shownProviders = providers.map(({ name, issuer }) => ({ name, formTargets: deps.formTargetsOf(issuer) }));
  const pendingSignIns = createPendingSignIns(derive('pending sign-in'));
  const verifiedIdentities = createVerifiedIdentities(derive('verified identity'));
  const tokens = { pendingSignIns, verifiedIdentities };
  const pages = createSignInPages(runtime, people, { tokens, admitIdentity, providers: shownProviders, formTargets });
  return {
    signIn: createSignIn(runtime, people, { pages, pendingSignIns }),
    externalSignIn: createExternalSignIn(runtime, people, { providers, verifiedIdentities, pages, erasure }),
    account: createAccount(runtime, signedIn, [browsersSection(runtime), ...deps.sections, leaveSection()]),
    browsers: createBrowsers(runtime, signedIn),
    security: createSecurity(runtime, people),
    confirmation: createConfirmation(runtime, people),
    startPage: signedIn.page(async (_request, { userId }) => redirectAnswer(await deps.startPathOf(userId))),
    email: createChangeEmail(runtime, people),
    signUp: createSignUp(runtime, people, erasure),
    leave: createLeave(runtime, people, { erasure, exportParts }),
    password: {
      change: createChange(runtime, people, endGrants),
      forgot: createForgot(runtime, people, links),
      reset: createReset(runtime, people, { pages, endGrants, erasure }),
    },
    users: createUserOperations(runtime, { passwords, links, erasure }),
  };
}

export type Accounts = ReturnType<typeof createAccounts>;

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
