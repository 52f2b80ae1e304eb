/** The page of an account, as text. */
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { shownDate } from '#hypermedia/shown-date.ts';
import type { DeedRow } from './audit/queries.ts';
import { browserOf, wordsFor } from './audit/words.ts';
import { accountNav } from './nav.ts';

const row = ({ action, address, userAgent, dateCreated }: DeedRow): Markup =>
  html`<tr>
    <td>${wordsFor(action)}</td>
    <td>${shownDate(dateCreated)}</td>
    <td>${address ?? 'the operator'}</td>
    <td>${browserOf(userAgent)}</td>
  </tr>`;

const activity = (deeds: readonly DeedRow[], root: string): Markup =>
  html`<div class="card">
    <h2 id="activity">Latest activity</h2>
    <p>If something here was not you, <a href="${root}/account/password">change your password</a>.</p>
    <div class="table" role="region" tabindex="0" aria-labelledby="activity">
      <table>
        <thead>
          <tr>
            <th scope="col">What</th>
            <th scope="col">When</th>
            <th scope="col">From</th>
            <th scope="col">By</th>
          </tr>
        </thead>
        <tbody>
          ${deeds.map(row)}
        </tbody>
      </table>
    </div>
  </div>`;

export const accountPage = (view: {
  root: string;
  email: string;
  isPasswordNew: boolean;
  sections: readonly Markup[];
  deeds: readonly DeedRow[];
}): string =>
  shell({
    title: 'Your account',
    wide: true,
    nav: accountNav(view.root, 'account'),
    main: html`<div class="card">
        <h1>Your account</h1>
        ${view.isPasswordNew && html`<p class="good" role="status">Your new password counts from now on.</p>`}
        <dl>
          <dt>E-mail</dt>
          <dd>${view.email}</dd>
        </dl>
        <p><a href="${view.root}/account/password">Change your password</a></p>
      </div>
      ${view.sections} ${activity(view.deeds, view.root)}`,
  });
