/**
 * What the pages of people are made of: the navigation, a card, forms that post, notices, and fields with their faults. `root` is everywhere
 * the path prefix of the pages, without a trailing slash.
 */
import { htmlAnswer } from '#http/answers.ts';
import type { RawHandler, RawResponse } from '#http/route.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { passwordFault, passwordLengthMin, type ChosenPassword } from './users.ts';

const navEntry = (href: string, text: string, isCurrent: boolean): Markup =>
  html`<a href="${href}" ${isCurrent && html`aria-current="page"`}>${text}</a>`;

/** Returns the navigation of a signed-in user's pages, for the shell's `nav`. */
export function accountNav(root: string, current?: 'account' | 'apps'): Markup {
  return html`<nav aria-label="Your pages">
    ${navEntry(`${root}/home`, 'Stores', false)} ${navEntry(`${root}/account#connected`, 'Connected apps', false)}
    ${navEntry(`${root}/account/clients`, 'Your apps', current === 'apps')}
    ${navEntry(`${root}/account`, 'Account', current === 'account')}
    <form method="post" action="${root}/sign-out"><button type="submit">Sign out</button></form>
  </nav>`;
}

/** Renders a page of one card, whose heading is the title. `nav`: of a signed-in user. */
export function cardPage(title: string, content: Markup, nav?: Markup, scripts?: Markup): string {
  const main = html`<div class="card">
    <h1>${title}</h1>
    ${content}
  </div>`;
  return shell({ title, main, ...(nav && { nav }), ...(scripts && { scripts }) });
}

type PageLink = { href: string; label: string; isButton?: true };

/** A page without a form: what happened, more about it, and where to go on. */
type Notice = {
  title: string;
  /** A screen reader announces an error (`alert`) and a success (`good`), but no `message`. */
  alert?: Markup | string;
  good?: Markup | string;
  message?: Markup | string;
  link?: PageLink | undefined;
  nav?: Markup;
};

export function noticeAnswer(
  status: number,
  { title, alert, good, message, link, nav }: Notice,
  headers: RawResponse['headers'] = {},
): RawResponse {
  const content = html`${alert !== undefined && html`<p class="alert" role="alert">${alert}</p>`}
  ${good !== undefined && html`<p class="good" role="status">${good}</p>`}
  ${message !== undefined && html`<p>${message}</p>`}
  ${
    link !== undefined &&
    html`<p><a ${link.isButton === true && html`class="button"`} href="${link.href}">${link.label}</a></p>`
  }`;
  return htmlAnswer(status, cardPage(title, content, nav), { headers });
}

export function nonceField(nonce: string): Markup {
  return html`<input type="hidden" name="nonce" value="${nonce}" />`;
}

export type PostForm = {
  action: string;
  /** Values of hidden fields by name, such as `nonce` and `token`. */
  hidden?: Readonly<Record<string, string>>;
  fields?: Markup | readonly Markup[];
  submit: string;
  /** The class of the button. */
  style?: 'quiet' | 'danger' | 'quiet danger';
  cancel?: { href: string; label?: string };
};

/** Renders a form that posts its fields, with its buttons below them. */
export function postForm({ action, hidden = {}, fields, submit, style, cancel }: PostForm): Markup {
  return html`<form method="post" action="${action}">
    ${Object.entries(hidden).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}
    ${fields}
    <div class="buttons">
      <button type="submit" ${style !== undefined && html`class="${style}"`}>${submit}</button>
      ${cancel !== undefined && html`<a class="button quiet" href="${cancel.href}">${cancel.label ?? 'Cancel'}</a>`}
    </div>
  </form>`;
}

type Choice = {
  name: string;
  /** What is submitted; `1` by default. */
  value?: string | number;
  isRadio?: boolean;
  isRequired?: boolean;
  isChecked?: boolean;
  label: Markup | string;
  hint?: Markup | string;
};

export function choice({ name, value = '1', isRadio, isRequired, isChecked, label, hint }: Choice): Markup {
  const type = isRadio === true ? 'radio' : 'checkbox';
  const chosen = isChecked === true && html`checked`;
  const state = isRequired === true ? html`required ${chosen}` : chosen;
  return html`<label class="choice">
    <input type="${type}" name="${name}" value="${value}" ${state} />
    <span>${label} ${hint !== undefined && html`<span class="soft">${hint}</span>`}</span>
  </label>`;
}

export type FormFault = { field: 'email' | 'current' | 'password'; message: string };

const alertId = 'form-alert';
const hintId = 'password-hint';

export const INVALID_EMAIL: FormFault = { field: 'email', message: 'Enter an address such as ada@example.com.' };
export const WRONG_PASSWORD: FormFault = { field: 'current', message: 'The current password is wrong.' };

export function alertOf(fault: FormFault | undefined): Markup | undefined {
  return fault && html`<p class="alert" role="alert" id="${alertId}">${fault.message}</p>`;
}

/** Returns the ARIA attributes that connect a field with its hint and its error message. */
function described(field: FormFault['field'], fault: FormFault | undefined, hint = ''): Markup {
  const isWrong = fault?.field === field;
  const ids = [hint, isWrong ? alertId : ''].filter((id) => id !== '').join(' ');
  return html`${isWrong && html`aria-invalid="true"`} ${ids !== '' && html`aria-describedby="${ids}"`}`;
}

/**
 * Renders the input of an e-mail address. Not `type="email"`: browsers reject jörg@example.com there, and send ada@xn--bcher-kva.example for
 * ada@bücher.example, which matches no account. `inputmode` still shows the keyboard with @ on phones.
 */
export function emailInput(value: string, attributes: Markup | false, autocomplete = 'username'): Markup {
  return html`<input
    type="text"
    id="email"
    name="email"
    value="${value}"
    inputmode="email"
    autocomplete="${autocomplete}"
    autocapitalize="none"
    spellcheck="false"
    required
    ${attributes}
  />`;
}

export function emailField(value: string, fault: FormFault | undefined, label = 'E-mail'): Markup {
  return html`<label for="email">${label}</label> ${emailInput(value, described('email', fault))}`;
}

/**
 * Returns a hidden field that is not submitted: password managers read from it to which account the new password
 * belongs.
 */
export function usernameField(email: string): Markup {
  return html`<input type="text" value="${email}" autocomplete="username" readonly hidden />`;
}

export function currentPasswordField(fault: FormFault | undefined): Markup {
  return html`<div class="field">
    <label for="current">Current password</label>
    <input
      type="password"
      id="current"
      name="current"
      autocomplete="current-password"
      required
      ${described('current', fault)}
    />
  </div>`;
}

export function newPasswordField(
  label: string,
  fault: FormFault | undefined,
  { hasSecondFactor }: { hasSecondFactor: boolean } = { hasSecondFactor: false },
): Markup {
  return html`<div class="field">
    <label for="password">${label}</label>
    <input
      type="password"
      id="password"
      name="password"
      autocomplete="new-password"
      required
      ${described('password', fault, hintId)}
    />
    <p class="soft" id="${hintId}">
      At least ${passwordLengthMin({ hasSecondFactor })} characters, for example a few words that you use nowhere else.
    </p>
  </div>`;
}

/** GET shows a form, POST submits it. */
export type FormHandlers = Record<'show' | 'submit', RawHandler>;

/** What is shown again of a refused form: the fault, and what was entered. */
export type Refused = { fault?: FormFault | undefined; typed?: string };

/** Returns the fault of a chosen password as its field shows it; `its` begins the sentence. */
export async function passwordFieldFault(chosen: ChosenPassword, its = 'The'): Promise<FormFault | undefined> {
  const fault = await passwordFault(chosen);
  return fault && { field: 'password', message: `${its} ${fault.message}.` };
}

function span(seconds: number): string {
  if (seconds <= 90) return seconds === 1 ? '1 second' : `${seconds} seconds`;
  return `${Math.ceil(seconds / 60)} minutes`;
}

/** Returns the 429 of too many attempts, with `Retry-After` and the alternatives. */
export function tooManyAnswer(
  root: string,
  { retryAfterSeconds }: { retryAfterSeconds: number },
  advice: Markup,
): RawResponse {
  const page = cardPage(
    'Too many attempts',
    html`<p class="alert" role="alert">Too many attempts. Try again in ${span(retryAfterSeconds)}.</p>
      ${advice}
      <p><a href="${root}/account">Your account</a></p>`,
  );
  return htmlAnswer(429, page, { headers: { 'Retry-After': String(retryAfterSeconds) } });
}

/** Returns the advice for throttled password attempts. Without mail only the operator can create a reset link. */
export function signInAdvice({ root, sendsMail }: { root: string; sendsMail: boolean }): Markup {
  return html`<p>
      If you do not remember your password,
      ${
        sendsMail
          ? html`<a href="${root}/forgot-password">request a reset link</a>: you can use it immediately.`
          : html`ask the operator of this service for a reset link.`
      }
    </p>
    <p>
      A browser that has signed in to this account before does not have to wait, unless the password has changed since
      then.
    </p>`;
}

/** Returns the 403 for a person whose e-mail address is not verified, instead of what such an account may not do. */
export function unverifiedAnswer(root: string, email: string): RawResponse {
  const page = cardPage(
    'Confirm your e-mail address',
    html`<p class="alert" role="alert">Your e-mail address <strong>${email}</strong> is not confirmed.</p>
      <p>
        Your account was made with an invitation link. Until the address is confirmed, it can only work in the store of
        that invitation.
      </p>
      <p>
        To confirm it, choose a new password with a link that is mailed to the address. A new account replaces this one
        then: what belongs to it now ends, also the membership of the store.
      </p>
      <p><a class="button" href="${root}/forgot-password">Get the link</a></p>`,
    accountNav(root),
  );
  return htmlAnswer(403, page);
}
