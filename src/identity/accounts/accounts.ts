/** The addresses of this room, put together: which page and which operation gets what. */
import type { Changelog } from '#changelog/changelog.ts';
import type { Sql } from '#db/pool.ts';
import { redirectAnswer } from '#http/answers.ts';
import { rootOf } from '#http/root.ts';
import type { Operation } from '#http/operation.ts';
import type { RawHandler } from '#http/route.ts';
import type { Keys } from '#core/keys.ts';
import type { Log } from '#core/log.ts';
import type { Mailer } from '#mail/mail.ts';
import { createAccount, type AccountSection } from './account.ts';
import type { EraseTheirs } from './api/erase.ts';
import { createUserOperations } from './api/operations.ts';
import { createAttempts } from './attempts.ts';
import { createDevices } from './device.ts';
import { createChange } from './password/change.ts';
import { createForgot } from './password/forgot.ts';
import { createLinks } from './password/links.ts';
import type { EndGrants } from './password/replace.ts';
import { createReset } from './password/reset.ts';
import type { Passwords } from './passwords.ts';
import type { Sessions } from './sessions.ts';
import { createSignIn } from './sign-in.ts';
import type { SignedIn } from './signed-in.ts';
import type { Throttle } from './throttle/throttle.ts';
import { signInAdvice } from './too-many.ts';

export type Accounts = {
  signIn: Record<'show' | 'submit' | 'signOut', RawHandler>;
  account: RawHandler;
  /** Where somebody begins who has just signed in. */
  landing: RawHandler;
  password: Record<'change' | 'forgot' | 'reset', Record<'show' | 'submit', RawHandler>>;
  users: Record<'list' | 'create' | 'read' | 'remove', Operation>;
};

export type AccountsDeps = {
  sql: Sql;
  changelog: Changelog;
  passwords: Passwords;
  sessions: Sessions;
  signedIn: SignedIn;
  throttle: Throttle;
  /** Undefined where the operator has set up no mail. */
  mailer: Mailer | undefined;
  /** What other rooms have to say on the account page, in this order. */
  sections: readonly AccountSection[];
  /** The `form-action` sources that sign-in needs beside its own origin, where the page to return to redirects elsewhere. */
  formTargets: (returnTo: string) => Promise<readonly string[]>;
  /** The path of the page that this person wants first. */
  landingOf: (userId: number) => Promise<string>;
  endGrants: EndGrants;
  eraseTheirs: EraseTheirs;
  /** 32 bytes each: what device cookies are proved with. */
  deviceKeys: Keys;
  passwordResetMinutes: number;
  baseUrl: string;
  authUrl: string;
  log: Log;
};

export const createAccounts = (deps: AccountsDeps): Accounts => {
  const { sql, authUrl } = deps;
  const root = rootOf(authUrl);
  const devices = createDevices({ keys: deps.deviceKeys, authUrl });
  const links = createLinks({ sql, authUrl, lifetimeMinutes: deps.passwordResetMinutes });
  const advice = signInAdvice({ root, sendsMail: deps.mailer !== undefined });
  const all = { ...deps, root, devices, links, advice, attempts: createAttempts({ ...deps, devices }) };
  return {
    signIn: createSignIn(all),
    account: createAccount(all),
    landing: deps.signedIn.page(async (_request, { userId }) => redirectAnswer(await deps.landingOf(userId))),
    password: { change: createChange(all), forgot: createForgot(all), reset: createReset(all) },
    users: createUserOperations(all),
  };
};
