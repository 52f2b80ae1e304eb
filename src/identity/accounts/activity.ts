/** Renders the latest audit entries of an account as a section of its page. */
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDate } from '#hypermedia/shown-date.ts';
import type { AuditRow, TriesRow } from './audit/audit-sql.ts';
import { browserOf, describeAction } from './audit/describe.ts';

export const TRIES_COUNTED_DAYS = 30;

export type Activity = {
  /** Shown as counts: listed one by one, a guessing attack would push all other entries off the page. */
  tries: readonly TriesRow[];
  entries: readonly AuditRow[];
  /** The id of the last entry shown, for the link to older entries; undefined if there are none. */
  older: number | undefined;
  isLatest: boolean;
};

function tried({ action, times, address, userAgent, dateCreated }: TriesRow): Markup {
  const browser = browserOf(userAgent);
  return html`<p>
    ${describeAction(action)} ${times === 1 ? 'once' : `${times} times`} in the last ${TRIES_COUNTED_DAYS} days, the
    latest ${shownDate(dateCreated)} from ${address}${browser !== '' && html` by ${browser}`}.
  </p>`;
}

const row = ({ action, app, address, userAgent, dateCreated }: AuditRow): Markup =>
  html`<tr>
    <td>${describeAction(action)}${app !== null && html`: <strong>${app}</strong>`}</td>
    <td>${shownDate(dateCreated)}</td>
    <td>${address ?? 'the operator'}</td>
    <td>${browserOf(userAgent)}</td>
  </tr>`;

const paging = ({ older, isLatest }: Activity, root: string): Markup =>
  html`<p>
    ${!isLatest && html`<a href="${root}/account#activity">Latest</a>`}
    ${older !== undefined && html`<a href="${root}/account?before=${older}#activity">Older</a>`}
  </p>`;

export function activitySection(activity: Activity, root: string): Markup {
  return html`<div class="card">
    <h2 id="activity">Latest activity</h2>
    <p>If something here was not you, <a href="${root}/account/password">change your password</a>.</p>
    ${activity.tries.map(tried)}
    <section class="table" tabindex="0" aria-labelledby="activity">
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
          ${activity.entries.map(row)}
        </tbody>
      </table>
    </section>
    ${(activity.older !== undefined || !activity.isLatest) && paging(activity, root)}
  </div>`;
}
