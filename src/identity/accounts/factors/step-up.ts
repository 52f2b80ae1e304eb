/**
 * Step-up: before a sensitive change a person proves again who they are, unless they did so within ten minutes. The page that asks
 * contains the posted form, so nothing has to be entered twice. The form is sealed, because it may have passwords and keys that no
 * page sends back, and opens only in the same session, at the same path, within ten minutes, and together with a proof.
 */
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import { VERIFICATION_FIELDS } from '#http/pages/form-post.ts';
import { type RawHandler, type RawRequest, type RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { findCredentials, verifySession } from '../accounts-sql.ts';
import { originOf, recordAuditEntry } from '../audit.ts';
import { accountNav, cardPage, postForm, tooManyAnswer, usernameField } from '../page-kit.ts';
import type { People, SecondFactors } from '../people.ts';
import { returnPath } from '../signed-in.ts';
import { type Session, carried, carry } from '../sessions.ts';
import { findFactors } from './factors-sql.ts';
import { hasSecondFactor, type Verified } from './second-factor.ts';

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
