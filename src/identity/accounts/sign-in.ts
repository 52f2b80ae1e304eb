/**
 * Sign-in and sign-out: GET and POST /sign-in, its second step, sign-in with a passkey, POST /sign-out. Sign-in with a provider is in
 * external-sign-in.ts.
 */
import { createHash } from 'node:crypto';
import { suspensionOf } from '#core/problem.ts';
import { transaction, type Tx } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import { VERIFICATION_FIELDS } from '#http/pages/form-post.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { originOf, recordAuditEntry } from './audit.ts';
import {
  findCredentials,
  insertIdentity,
  lockPassword,
  touchIdentity,
  type Credentials,
  type ExternalIdentity,
} from './accounts-sql.ts';
import { carried, carry, frameOriginsOf } from './sessions.ts';
import { findFactors, type Factors } from './factors/factors-sql.ts';
import { factorChangedMail, NEW_DEVICE } from './account-mails.ts';
import { hasSecondFactor } from './factors/second-factor.ts';
import { returnPath, verificationForm } from './signed-in.ts';
import type { People } from './people.ts';
import { addressPrefix } from '#core/address-prefix.ts';
import { cardPage, emailInput, tooManyAnswer } from './page-kit.ts';

/** One message for an unknown address and a wrong password, so that the page does not reveal whether an account exists. */
const WRONG = 'The e-mail address or the password is wrong.';
const WRONG_CODE = 'The code or passkey is not valid. Each code works once.';
const WRONG_PASSKEY = 'The passkey is not known here, or the page was open for too long. Try again.';
const NOT_LINKED =
  'Nothing was linked: the sign-in took too long, or it is for another account. Start again, or sign in to the account with the address that the provider knows.';
const TOO_LATE = 'The sign-in took too long, or the password was changed. Start again.';

/** The field in which the forms of a sign-in carry a verified identity. */
export const IDENTITY_FIELD = 'identity';

/**
 * An identity that a provider has just verified, in the forms that follow: that of the password to which it is linked, or of the second
 * factor. `provider` is the name. `isLinked`: the identity was linked to the user already, otherwise it is linked by the sign-in.
 */
export type VerifiedIdentity = ExternalIdentity & { provider: string; userId: number; isLinked: boolean };

const IDENTITY = 'verified identity';

/** Returns the field of the forms that follow. */
export function carriedIdentity({ sealer }: Pick<Runtime, 'sealer'>, identity: VerifiedIdentity, now: Date): string {
  return carry(sealer, IDENTITY, identity, now);
}

/** Returns the identity of a form; undefined if it has none, or the field is not authentic or has expired. */
const identityOf = ({ sealer }: Pick<Runtime, 'sealer'>, { form, now }: RawRequest): VerifiedIdentity | undefined =>
  carried(sealer, IDENTITY, form.get(IDENTITY_FIELD), now)?.value as VerifiedIdentity | undefined;

/** The person of a password that was right a moment ago, in the form of the second factor. */
type PendingSignIn = { id: number; password: string };

const PENDING = 'pending sign-in';

/** Identifies a password, so that the second step ends with a new one. */
const digestOf = ({ passwordHash }: Credentials): string => createHash('sha256').update(passwordHash).digest('hex');

/** Returns the person of the second step; undefined if the field is not authentic or has expired, or the password was changed. */
async function pendingUser(
  { sql, sealer }: Pick<Runtime, 'sql' | 'sealer'>,
  { form, now }: RawRequest,
): Promise<Credentials | undefined> {
  const pending = carried(sealer, PENDING, form.get('pending'), now)?.value as PendingSignIn | undefined;
  const user = pending && (await findCredentials(sql, pending.id));
  return user !== undefined && digestOf(user) === pending?.password ? user : undefined;
}

/** A person who was verified in full; `identity` is that of a provider. */
type SigningIn = { user: Credentials; identity: VerifiedIdentity | undefined };

/** What the pages of the sign-in need beside the runtime and the people. */
type SignInParts = {
  /** Makes the person a member of the stores that wait for an identity, in the transaction of the sign-in with it. */
  admitIdentity: (tx: Tx, identity: ExternalIdentity & { userId: number; now: Date }) => Promise<void>;
  /** The names of the OpenID providers, and the CSP sources of their pages. */
  providers: readonly { name: string; formTargets: readonly string[] }[];
  formTargets: (returnTo: string) => Promise<readonly string[]>;
};

/** Links the identity to the user, or records its use. Undefined if it is linked to another user, or no longer linked. */
async function useIdentity(
  tx: Tx,
  { admitIdentity }: SignInParts,
  request: RawRequest,
  identity: VerifiedIdentity,
): Promise<{ hasLinked: boolean } | undefined> {
  const { now } = request;
  const { userId, provider } = identity;
  const hasLinked = !identity.isLinked && (await insertIdentity(tx, { ...identity, now }));
  if (!hasLinked && !(await touchIdentity(tx, { ...identity, now }))) return undefined;
  await admitIdentity(tx, { ...identity, now });
  const entry = { userId, origin: originOf(request), detail: { provider }, now };
  if (hasLinked) await recordAuditEntry(tx, { ...entry, action: 'external_identity_linked' });
  return { hasLinked };
}

/**
 * Starts the session and returns its cookies; undefined if the password has changed since it was verified, or the identity with which
 * the person signs in is not theirs. Mails the person if the browser is new to the account, or a provider was linked.
 */
async function begin(
  { sql, mailer, config }: Runtime,
  { sessions, factors: { devices }, securityMails }: People,
  parts: SignInParts,
  request: RawRequest,
  { user, identity }: SigningIn,
): Promise<string[] | undefined> {
  const { now } = request;
  const isNew = (await securityMails?.isNewDevice(request, user)) === true;
  const begun = await transaction(sql, async (tx) => {
    if (!(await lockPassword(tx, user))) return undefined;
    const used = identity === undefined ? { hasLinked: false } : await useIdentity(tx, parts, request, identity);
    if (used === undefined) return undefined;
    await sessions.end(tx, request);
    const session = await sessions.start(tx, user.id, request);
    const detail = identity === undefined ? {} : { provider: identity.provider };
    await recordAuditEntry(tx, { action: 'signed_in', userId: user.id, origin: originOf(request), detail, now });
    return { ...used, session };
  });
  if (begun === undefined) return undefined;
  if (isNew) securityMails?.send(request, user, NEW_DEVICE);
  const what = `sign-in with ${identity?.provider ?? ''} was linked.`;
  if (begun.hasLinked) mailer?.send(factorChangedMail({ to: user.email, what, authUrl: config.authUrl }));
  return [begun.session, ...devices.remember(request, user)];
}

/** Returns what a suspended person reads after a proof of who they are; undefined for others. */
export function suspensionAlert(reason: string | null | undefined): string | undefined {
  return reason == null ? undefined : `${suspensionOf('account', reason).message}.`;
}

export type SignInPages = {
  signIn: (request: RawRequest, status: number, typed: { email?: string; alert?: string }) => Promise<RawResponse>;
  secondStep: (request: RawRequest, user: Credentials, factors: Factors, alert?: string) => Promise<RawResponse>;
  /** Signs in a person who was verified in full, and redirects. Shows the form with `alert` if that is no longer possible. */
  finish: (request: RawRequest, user: Credentials, alert: string) => Promise<RawResponse>;
};

const returnTargetOf = ({ method, query, form }: RawRequest): string | undefined =>
  returnPath((method === 'POST' ? form : query).get('return_to'));

const needsOf = async ({ formTargets }: SignInParts, returnTo: string | undefined) => {
  return { formTargets: returnTo === undefined ? [] : await formTargets(returnTo), hasScripts: true };
};

export function createSignInPages(runtime: Runtime, people: People, parts: SignInParts): SignInPages {
  const root = rootOf(runtime.config.authUrl);
  const { passkeys, passkeyScripts } = people.factors;
  const signIn = createFirstStep(runtime, people, parts);
  return {
    signIn,
    secondStep: async (request, user, { passkeys: own, hasApp }, alert) => {
      const returnTo = returnTargetOf(request);
      const passkeyOptions = own.length > 0 ? await passkeys.signInOptions(request.now, own) : undefined;
      const person: PendingSignIn = { id: user.id, password: digestOf(user) };
      const pending = carry(runtime.sealer, PENDING, person, request.now);
      const identity = request.form.get(IDENTITY_FIELD) ?? undefined;
      const { email } = user;
      const page = cardPage(
        'Second step of the sign-in',
        html`<p>Signing in as <strong>${email}</strong>.</p>
          ${verificationForm({
            action: `${root}/sign-in/second-factor`,
            fields: html`${returnField(returnTo)}${identityField(identity)}
              <input type="hidden" name="pending" value="${pending}" />`,
            email,
            factors: { hasApp, passkeyOptions },
            alert,
            submit: 'Sign in',
            cancel: { href: `${root}/sign-in`, label: 'Start again' },
          })}
          <p class="soft">
            Without your passkeys, app and recovery codes, only the operator of this service can let you in again.
          </p>`,
        undefined,
        passkeyScripts,
      );
      return htmlAnswer(alert === undefined ? 200 : 422, page, await needsOf(parts, returnTo));
    },
    finish: async (request, user, alert) => {
      const identity = identityOf(runtime, request);
      if (request.form.has(IDENTITY_FIELD) && identity?.userId !== user.id)
        return signIn(request, 422, { alert: NOT_LINKED });
      const cookies = await begin(runtime, people, parts, request, { user, identity });
      if (cookies === undefined) return signIn(request, 422, { email: user.email, alert });
      return redirectAnswer(returnTargetOf(request) ?? `${root}/home`, { 'Set-Cookie': cookies });
    },
  };
}

export function createSignIn(
  runtime: Runtime,
  { sessions, throttle, factors }: People,
  pages: SignInPages,
): Record<'show' | 'submit' | 'submitSecond' | 'submitPasskey' | 'signOut', RawHandler> {
  const { sql, config } = runtime;
  const { attempts, secondFactor, passkeys, advice } = factors;
  const root = rootOf(config.authUrl);
  return {
    show: async (request) => {
      // No frame shows this page: that of the portal opens it in a window.
      if (frameOriginsOf(config, request).length > 0) {
        const query = new URLSearchParams({ return_to: returnTargetOf(request) ?? `${root}/home` });
        return redirectAnswer(`${root}/portal?${query.toString()}`);
      }
      // With `return_to`, a signed-in user also gets the form, to switch to another account.
      const session = returnTargetOf(request) === undefined ? await sessions.find(request) : null;
      if (session !== null) return redirectAnswer(`${root}/home`);
      return pages.signIn(request, 200, {});
    },

    submit: async (request) => {
      const email = request.form.get('email')?.trim() ?? '';
      const attempt = await attempts(request, { email, password: request.form.get('password') ?? '' });
      if (attempt.kind === 'too many') return tooManyAnswer(root, attempt, advice);
      if (attempt.kind === 'wrong')
        return pages.signIn(request, 422, { email, alert: suspensionAlert(attempt.suspendedReason) ?? WRONG });
      const found = await findFactors(sql, attempt.user.id);
      if (hasSecondFactor(found)) return pages.secondStep(request, attempt.user, found);
      return pages.finish(request, attempt.user, WRONG);
    },

    submitSecond: async (request) => {
      const user = await pendingUser(runtime, request);
      // A recovery code of a disabled person is not used up.
      if (user === undefined || user.isDisabled)
        return pages.signIn(request, 422, { alert: suspensionAlert(user?.disabledReason) ?? TOO_LATE });
      const verified = await secondFactor.verify(request, user);
      if (verified.kind === 'too many') return tooManyAnswer(root, verified, advice);
      if (verified.kind === 'wrong')
        return pages.secondStep(request, user, await findFactors(sql, user.id), WRONG_CODE);
      return pages.finish(request, user, TOO_LATE);
    },

    submitPasskey: async (request) => {
      const { form, now, address } = request;
      const taken = await throttle.take([{ limit: 'sign-in from address', subject: addressPrefix(address) }], now);
      if (!taken.allowed) return tooManyAnswer(root, taken, advice);
      const id = await passkeys.accept(sql, form.get(VERIFICATION_FIELDS.passkey) ?? '', now);
      const user = id === undefined ? undefined : await findCredentials(sql, id);
      if (user === undefined) return pages.signIn(request, 422, { alert: WRONG_PASSKEY });
      await taken.giveBack();
      return pages.finish(request, user, suspensionAlert(user.disabledReason) ?? WRONG_PASSKEY);
    },

    signOut: async (request) => {
      const { now } = request;
      const cookie = await transaction(sql, async (tx) => {
        const ended = await sessions.end(tx, request);
        if (ended.userId !== null)
          await recordAuditEntry(tx, { action: 'signed_out', userId: ended.userId, origin: originOf(request), now });
        return ended.cookie;
      });
      return redirectAnswer(`${root}/sign-in`, { 'Set-Cookie': cookie });
    },
  };
}

const alertId = 'sign-in-alert';

const returnField = (returnTo: string | undefined) =>
  returnTo !== undefined && html`<input type="hidden" name="return_to" value="${returnTo}" />`;

const identityField = (token: string | undefined) =>
  token !== undefined && html`<input type="hidden" name="${IDENTITY_FIELD}" value="${token}" />`;

const linkingNotice = (root: string, provider: string): Markup =>
  html`<p class="good" role="status">
      There is an account with the address that ${provider} has for you. Sign in to it once as before, to link
      ${provider}: from then on you can sign in with ${provider}.
    </p>
    <p><a href="${root}/sign-in">Sign in without linking ${provider}</a></p>`;

const providerForm = (root: string, provider: string, returnTo: string | undefined): Markup =>
  html`<form method="post" action="${root}/sign-in/with/${provider}">
    ${returnField(returnTo)}
    <p class="buttons"><button type="submit" class="quiet">Sign in with ${provider}</button></p>
  </form>`;

/** Creates the page of the first step. Its script offers passkeys in the field of the address and shows a button. */
function createFirstStep(
  runtime: Runtime,
  { factors: { passkeys, passkeyScripts } }: People,
  parts: SignInParts,
): SignInPages['signIn'] {
  const { authUrl, accounts } = runtime.config;
  const root = rootOf(authUrl);
  const providerTargets = parts.providers.flatMap(({ formTargets }) => formTargets);
  return async (request, status, { email = '', alert }) => {
    const returnTo = returnTargetOf(request);
    const passkeyOptions = await passkeys.signInOptions(request.now);
    const identity = identityOf(runtime, request);
    // The provider whose identity this sign-in links to the account.
    const linking = identity?.isLinked === false ? identity.provider : undefined;
    const token = linking === undefined ? undefined : (request.form.get(IDENTITY_FIELD) ?? '');
    const fields = html`${returnField(returnTo)}${identityField(token)}`;
    const described = alert !== undefined && html`aria-invalid="true" aria-describedby="${alertId}"`;
    const page = cardPage(
      'Sign in',
      html`${alert !== undefined && html`<p class="alert" role="alert" id="${alertId}">${alert}</p>`}
        ${linking !== undefined && linkingNotice(root, linking)}
        <form method="post" action="${root}/sign-in">
          ${fields}
          <label for="email">E-mail</label>
          ${emailInput(email, described, 'username webauthn')}
          <label for="password">Password</label>
          <input type="password" id="password" name="password" autocomplete="current-password" required ${described} />
          <div class="buttons"><button type="submit">Sign in</button></div>
        </form>
        <form method="post" action="${root}/sign-in/passkey">
          ${fields}
          <input type="hidden" name="${VERIFICATION_FIELDS.passkey}" />
          <p class="buttons" data-passkey-get="${passkeyOptions}" data-passkey-autofill hidden>
            <button type="submit" class="quiet">Use a passkey</button>
          </p>
        </form>
        ${linking === undefined && parts.providers.map(({ name }) => providerForm(root, name, returnTo))}
        <p><a href="${root}/forgot-password">Forgot your password?</a></p>
        ${accounts.allowsSignUp && html`<p>New here? <a href="${root}/sign-up">Create an account</a></p>`}`,
      undefined,
      passkeyScripts,
    );
    const needs = await needsOf(parts, returnTo);
    return htmlAnswer(status, page, {
      ...needs,
      formTargets: [...new Set([...needs.formTargets, ...providerTargets])],
    });
  };
}
