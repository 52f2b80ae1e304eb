/**
 * Pages and forms that require a signed-in user, and step-up: before a sensitive change a person proves again who they are, unless they did
 * so within ten minutes. The page that asks contains the posted form, so nothing has to be entered twice. The form is sealed, because it may
 * have passwords and keys that no page sends back, and opens only in the same session, at the same path, within ten minutes, and with a proof.
 */
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { Keys } from '#core/keys.ts';
import { formNonce, isFormNonce, type Session, type Sessions, carried, carry } from './sessions.ts';
import { accountNav, cardPage, unverifiedAnswer, postForm, tooManyAnswer, usernameField } from './page-kit.ts';
import { VERIFICATION_FIELDS } from '#http/pages/form-post.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { findCredentials, verifySession } from './accounts-sql.ts';
import { originOf, recordAuditEntry } from './audit.ts';
import type { People, SecondFactors } from './people.ts';
import { findFactors } from './factors/factors-sql.ts';
import { hasSecondFactor, type Verified } from './factors/second-factor.ts';

/** The form's name, then everything that its effect depends on, such as the id of the object it deletes. */
type Bound = readonly unknown[];
type BoundTo = (request: RawRequest) => Bound;
type Handle = (request: RawRequest, session: Session) => Promise<RawResponse>;

export type SignedIn = ReturnType<typeof createSignedIn>;

export function enrolmentPath(root: string): string {
  return `${root}/account/security`;
}

/** Returns the same path for a person of whom a store requires it, which the page says. */
export function enrolmentForStore(root: string): string {
  return `${enrolmentPath(root)}?required_by=store`;
}

/** Returns the same path for an operator, whose role requires it. */
export function enrolmentForRole(root: string): string {
  return `${enrolmentPath(root)}?required_by=role`;
}

const stalePage = (root: string): string =>
  cardPage(
    'Form expired',
    html`<p class="alert" role="alert">You have signed in again since this form was opened. Nothing was changed.</p>
      <p>Go back, reload the page and submit the form again.</p>`,
    accountNav(root),
  );

/** `isForVerified`: people whose e-mail address is not verified see how to verify it, after all other checks. */
export function createSignedIn(deps: {
  sessions: Sessions;
  authUrl: string;
  nonceKeys: Keys;
  stepUp: StepUp;
  isForVerified?: true;
}) {
  const root = rootOf(deps.authUrl);
  /** Returns whether the nonce was issued to this session for this form. */
  const isNonce = (value: string | null, session: Session, bound: Bound): boolean =>
    isFormNonce(value, deps.nonceKeys, session, bound);

  const enrolmentPage =
    (handle: Handle): RawHandler =>
    async (request) => {
      const session = await deps.sessions.find(request);
      if (session !== null) return handle({ ...request, form: deps.stepUp.restored(request, session) }, session);
      const { path, rawQuery } = request;
      // A form target has no page to return to.
      const returnTo = request.method === 'POST' ? `${root}/account` : rawQuery === '' ? path : `${path}?${rawQuery}`;
      return redirectAnswer(`${root}/sign-in?${new URLSearchParams({ return_to: returnTo }).toString()}`);
    };

  const page = (handle: Handle): RawHandler =>
    enrolmentPage(async (request, session) =>
      session.mustEnrol ? redirectAnswer(enrolmentPath(root)) : handle(request, session),
    );
  const checked =
    (boundTo: BoundTo, handle: Handle): Handle =>
    async (request, session) =>
      isNonce(request.form.get('nonce'), session, boundTo(request))
        ? handle(request, session)
        : htmlAnswer(403, stalePage(root));
  const confirmed =
    (handle: Handle): Handle =>
    async (request, session) =>
      (await deps.stepUp.confirm(request, session)) ?? handle(request, session);

  const admitted =
    (handle: Handle): Handle =>
    async (request, session) =>
      session.isEmailVerified || deps.isForVerified === undefined
        ? handle(request, session)
        : unverifiedAnswer(root, session.email);

  return {
    /** Redirects a visitor without a session to sign-in, with the path to return to. */
    page: (handle: Handle) => page(admitted(handle)),
    /** Like `page`, also for a person who has to set up a second factor first. */
    enrolmentPage: (handle: Handle) => enrolmentPage(admitted(handle)),
    /** Returns the value of a form's hidden field `nonce`. */
    nonce: (session: Session, bound: Bound): string => formNonce(deps.nonceKeys, session, bound),
    isNonce,
    /** Requires that the field `nonce` was issued to this session for `boundTo`. */
    form: (boundTo: BoundTo, handle: Handle) => page(checked(boundTo, admitted(handle))),
    /** Like `form`, and requires that the person was verified within ten minutes; asks them if not. */
    sensitiveForm: (boundTo: BoundTo, handle: Handle) => page(checked(boundTo, confirmed(admitted(handle)))),
    /** Like `sensitiveForm`, for a form that asks for the password: a person without a second factor is not asked again. */
    passwordForm: (boundTo: BoundTo, handle: Handle) => {
      const shown = admitted(handle);
      return page(
        checked(boundTo, (request, session) => (session.hasFactor ? confirmed(shown) : shown)(request, session)),
      );
    },
    /** Like `sensitiveForm`, also for a person who has to set up a second factor first. */
    enrolmentForm: (boundTo: BoundTo, handle: Handle) => enrolmentPage(checked(boundTo, confirmed(admitted(handle)))),
  };
}

/**
 * A path on this site: `/`, then printable ASCII without a backslash. A second slash at the start is rejected, because
 * browsers read it as another host (`//evil.example`, `/\evil.example`). Only ASCII, because it is written to a header unchanged.
 */
const RETURN_PATH = /^\/(?!\/)[\x21-\x5b\x5d-\x7e]*$/;

/** Returns the path if it stays on this site, otherwise undefined. */
export function returnPath(text: string | null): string | undefined {
  return text !== null && RETURN_PATH.test(text) ? text : undefined;
}

const FRESH_MS = 10 * 60_000;
const WRONG = { password: 'The password is wrong.', code: 'The code or passkey is not valid. Each code works once.' };

type Posted = Pick<RawRequest, 'form' | 'path' | 'now'>;

export type StepUp = {
  /** Returns the form; if it confirms another one, that one, with the fields of the confirmation. */
  restored: (request: Posted, session: Session) => URLSearchParams;
  /**
   * Returns undefined if the person of the session was verified within ten minutes, or is by the fields of this form; otherwise the
   * page that asks, whose form repeats the request. `formTargets` are the origins to which the response may redirect.
   */
  confirm: (request: RawRequest, session: Session, formTargets?: readonly string[]) => Promise<RawResponse | undefined>;
};

const verificationFields: ReadonlySet<string> = new Set(Object.values(VERIFICATION_FIELDS));

/** Returns whether the person of the session was verified within ten minutes, with a second factor if they have one. */
export function isFresh({ verifiedAt, hasFactor, provedFactor }: Session, now: Date): boolean {
  const isRecent = verifiedAt !== null && now.getTime() - verifiedAt.getTime() < FRESH_MS;
  return isRecent && (provedFactor || !hasFactor);
}

const boundTo = ({ id }: Session, path: string): string => `step-up:${id}:${path}`;

export function createStepUp(
  { sql, sealer, config }: Runtime,
  factors: Pick<SecondFactors, 'attempts' | 'secondFactor' | 'passkeys' | 'passkeyScripts' | 'advice'>,
): StepUp {
  const { attempts, secondFactor, passkeys, passkeyScripts, advice } = factors;
  const root = rootOf(config.authUrl);

  const page = async (
    { path, rawQuery, form, now }: RawRequest,
    session: Session,
    { alert, formTargets = [] }: { alert?: string; formTargets?: readonly string[] },
  ): Promise<RawResponse> => {
    const found = await findFactors(sql, session.userId);
    const isPasskeyUsable = found.passkeys.length > 0;
    const passkeyOptions = isPasskeyUsable ? await passkeys.signInOptions(now, found.passkeys) : undefined;
    const entered = new URLSearchParams([...form].filter(([name]) => !verificationFields.has(name)));
    const sealed = carry(sealer, boundTo(session, path), entered.toString(), now);
    const shown = cardPage(
      'Confirm that it is you',
      html`<p>You signed in some time ago, and this is a sensitive change. Nothing that you entered is lost.</p>
        ${verificationForm({
          action: rawQuery === '' ? path : `${path}?${rawQuery}`,
          fields: html`<input type="hidden" name="${VERIFICATION_FIELDS.form}" value="${sealed}" />`,
          email: session.email,
          factors: hasSecondFactor(found) ? { hasApp: found.hasApp, passkeyOptions } : undefined,
          alert,
          submit: 'Confirm',
          cancel: { href: `${root}/home`, label: 'Cancel' },
        })}`,
      accountNav(root),
      passkeyScripts,
    );
    return htmlAnswer(alert === undefined ? 403 : 422, shown, { formTargets, hasScripts: true });
  };

  const verify = async (request: RawRequest, session: Session, hasFactor: boolean): Promise<Verified> => {
    const { form } = request;
    if (!hasFactor) {
      const password = form.get(VERIFICATION_FIELDS.password) ?? '';
      const attempt = await attempts(request, { email: session.email, password });
      return attempt.kind === 'right' ? { kind: 'right' } : attempt;
    }
    const user = await findCredentials(sql, session.userId);
    return user === undefined ? { kind: 'wrong' } : secondFactor.verify(request, user);
  };

  return {
    restored: ({ form, path, now }, session) => {
      const entered = carried(sealer, boundTo(session, path), form.get(VERIFICATION_FIELDS.form), now);
      if (entered === undefined) return form;
      const proof = [...form].filter(([name]) => verificationFields.has(name));
      return new URLSearchParams([...new URLSearchParams(entered.value as string), ...proof]);
    },
    confirm: async (request, session, formTargets = []) => {
      const { form, now } = request;
      const isAnswered = [...form.keys()].some((name) => verificationFields.has(name));
      // A form that was carried needs a proof of its own: with the password in it, a person who finds the page could send it again.
      if (isFresh(session, now) && !isAnswered) return undefined;
      if (!isAnswered) return page(request, session, { formTargets });
      const hasFactor = hasSecondFactor(await findFactors(sql, session.userId));
      const verified = await verify(request, session, hasFactor);
      if (verified.kind === 'too many') return tooManyAnswer(root, verified, advice);
      if (verified.kind === 'wrong')
        return page(request, session, { alert: hasFactor ? WRONG.code : WRONG.password, formTargets });
      await verifySession(sql, Buffer.from(session.id, 'hex'), now);
      const { userId } = session;
      await recordAuditEntry(sql, { action: 'identity_confirmed', userId, origin: originOf(request), now });
      return undefined;
    },
  };
}

/** Returns the address of the page that asks before a page shows secrets, and returns to `path`. */
export function confirmationAt(root: string, path: string): string {
  return `${root}/account/confirm?${new URLSearchParams({ return_to: path }).toString()}`;
}

/** GET and POST /account/confirm: verifies a person before a page shows secrets. */
export function createConfirmation({ config }: Pick<Runtime, 'config'>, people: People): RawHandler {
  const root = rootOf(config.authUrl);
  const { stepUp } = people.factors;
  return people.signedIn.page(async (request, session) => {
    const given = request.method === 'POST' ? request.form : request.query;
    const target = returnPath(given.get('return_to')) ?? `${root}/account`;
    const form = request.method === 'POST' ? request.form : new URLSearchParams({ return_to: target });
    const page = await stepUp.confirm({ ...request, rawQuery: '', form }, session);
    return page ?? redirectAnswer(target);
  });
}

const alertId = 'verification-alert';

const described = (alert: string | undefined): Markup =>
  html`${alert !== undefined && html`aria-invalid="true" aria-describedby="${alertId}"`}`;

const codeField = (hasApp: boolean, alert: string | undefined): Markup =>
  html`<div class="field">
    <label for="code">${hasApp ? 'Code of your authenticator app, or a recovery code' : 'Recovery code'}</label>
    <input
      type="text"
      id="code"
      name="${VERIFICATION_FIELDS.code}"
      autocomplete="one-time-code"
      autocapitalize="none"
      spellcheck="false"
      maxlength="60"
      required
      ${described(alert)}
    />
  </div>`;

const passwordField = (email: string, alert: string | undefined): Markup =>
  html`${usernameField(email)}
    <div class="field">
      <label for="password">Password</label>
      <input
        type="password"
        id="password"
        name="${VERIFICATION_FIELDS.password}"
        autocomplete="current-password"
        required
        ${described(alert)}
      />
    </div>`;

/**
 * Renders the form in which a person proves who they are: with a passkey, a code, or the password.
 * `fields` are hidden inputs of the form. `factors` is undefined for a person without a second factor, who enters the password.
 * `passkeyOptions` is the JSON for `navigator.credentials.get`; the button needs a script, which shows it.
 */
export function verificationForm(view: {
  action: string;
  fields: Markup;
  email: string;
  factors: { hasApp: boolean; passkeyOptions: string | undefined } | undefined;
  alert: string | undefined;
  submit: string;
  cancel: { href: string; label: string };
}): Markup {
  const { action, email, factors, alert, submit, cancel } = view;
  const passkey =
    factors?.passkeyOptions !== undefined &&
    html`<input type="hidden" name="${VERIFICATION_FIELDS.passkey}" />
      <p class="buttons" data-passkey-get="${factors.passkeyOptions}" hidden>
        <button type="button">Use a passkey</button>
      </p>`;
  const field = factors === undefined ? passwordField(email, alert) : codeField(factors.hasApp, alert);
  return html`${alert !== undefined && html`<p class="alert" role="alert" id="${alertId}">${alert}</p>`}
  ${postForm({ action, fields: html`${view.fields} ${passkey} ${field}`, submit, cancel })}`;
}
