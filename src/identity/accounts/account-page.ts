/** Renders the account page. */
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { activitySection, type Activity } from './activity.ts';
import { accountNav } from './page-kit.ts';

export function accountPage(view: {
  root: string;
  email: string;
  /** The path of the invitations to the person. */
  invitations: string;
  /** What was just done. */
  message: string | undefined;
  sections: readonly Markup[];
  activity: Activity;
}): string {
  return shell({
    title: 'Your account',
    wide: true,
    nav: accountNav(view.root, 'account'),
    main: html`<div class="card">
        <h1>Your account</h1>
        ${view.message !== undefined && html`<p class="good" role="status">${view.message}</p>`}
        <dl>
          <dt>E-mail</dt>
          <dd>${view.email}</dd>
        </dl>
        <p>
          <a href="${view.root}/account/security">Sign-in settings</a> ·
          <a href="${view.root}/account/password">Change your password</a> ·
          <a href="${view.root}/account/email">Change your e-mail address</a> ·
          <a href="${view.invitations}">Your invitations</a>
        </p>
      </div>
      ${view.sections} ${activitySection(view.activity, view.root)}`,
  });
}
