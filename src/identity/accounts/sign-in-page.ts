/** Renders the sign-in page. */
import { html } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { emailInput } from './email-input.ts';

const alertId = 'sign-in-alert';

/** `root` is the path prefix of the pages, without a trailing slash. */
export function signInPage(view: {
  root: string;
  returnTo: string | undefined;
  email: string;
  alert: string | undefined;
  /** Whether people may create accounts themselves. */
  allowsSignUp: boolean;
}): string {
  const described = view.alert !== undefined && html`aria-invalid="true" aria-describedby="${alertId}"`;
  return shell({
    title: 'Sign in',
    main: html`<div class="card">
      <h1>Sign in</h1>
      ${view.alert !== undefined && html`<p class="alert" role="alert" id="${alertId}">${view.alert}</p>`}
      <form method="post" action="${view.root}/sign-in">
        ${view.returnTo !== undefined && html`<input type="hidden" name="return_to" value="${view.returnTo}" />`}
        <label for="email">E-mail</label>
        ${emailInput(view.email, described)}
        <label for="password">Password</label>
        <input type="password" id="password" name="password" autocomplete="current-password" required ${described} />
        <div class="buttons"><button type="submit">Sign in</button></div>
      </form>
      <p><a href="${view.root}/forgot-password">Forgot your password?</a></p>
      ${view.allowsSignUp && html`<p>New here? <a href="${view.root}/sign-up">Create an account</a></p>`}
    </div>`,
  });
}
