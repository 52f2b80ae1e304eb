/**
 * GET /account: the signed-in user, their browsers, sections of other modules and the latest activity. POST /account/browsers/…
 * ends sessions.
 */
import { countPortalSessions } from './links-sql.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import { doneSentence } from '#http/operation.ts';
import { idIn, type RawHandler, type RawRequest } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { parseId } from '#core/ids.ts';
import {
  countTries,
  deleteOtherSessions,
  deleteSessionById,
  latestAuditEntries,
  listBrowsers,
  type AuditRow,
  type BrowserRow,
  type TriesRow,
} from './accounts-sql.ts';
import type { Session } from './sessions.ts';
import type { SignedIn } from './signed-in.ts';
import { shell } from '#hypermedia/shell.ts';
import { accountNav, nonceField, postForm } from './page-kit.ts';
import { shownDate } from '#hypermedia/shown-date.ts';
import { browserOf, describeAction, originOf, recordAuditEntry } from './audit.ts';

const ENTRIES_SHOWN = 20;
const DAY_MS = 86_400_000;

/** The messages of actions that belong to no section. */
const DONE: ReadonlyMap<string, string> = new Map([
  ['password', 'Password changed.'],
  ['email', 'E-mail address changed.'],
]);

/**
 * A section of the page that another module renders: a `card` that begins with an `h2`. `nonce` is for its forms, `root` the
 * path prefix of the pages, without a trailing slash.
 */
export type AccountSection = (visit: {
  session: Session;
  now: Date;
  nonce: (bound: readonly (string | number)[]) => string;
  root: string;
  /** The action just completed, from the query parameter `done` of the redirect. */
  done: string | null;
}) => Promise<Markup>;

export function createAccount(
  { sql, config }: Pick<Runtime, 'sql' | 'config'>,
  signedIn: SignedIn,
  shown: readonly AccountSection[],
): RawHandler {
  const { baseUrl, authUrl } = config;
  const root = rootOf(authUrl);
  return signedIn.page(async ({ query, now }, session) => {
    const visit = {
      session,
      now,
      nonce: (bound: readonly (string | number)[]) => signedIn.nonce(session, bound),
      root,
      done: query.get('done'),
    };
    const sections = await Promise.all(shown.map((section) => section(visit)));
    const { userId, email, isOperator } = session;
    const before = parseId(query.get('before') ?? '');
    const found = await latestAuditEntries(sql, { userId, before, limit: ENTRIES_SHOWN + 1, hasTries: false });
    const entries = found.slice(0, ENTRIES_SHOWN);
    const older = found.length > ENTRIES_SHOWN ? entries.at(-1)?.id : undefined;
    const tries = await countTries(sql, userId, new Date(now.getTime() - TRIES_COUNTED_DAYS * DAY_MS));
    const invitations = new URL(`${baseUrl}/users/${userId}/invitations`).pathname;
    const message = DONE.get(visit.done ?? '') ?? doneSentence(query);
    const activity = { tries, entries, older, isLatest: before === undefined };
    const page = shell({
      title: 'Your account',
      wide: true,
      nav: accountNav(root, 'account'),
      main: html`<div class="card">
          <h1>Your account</h1>
          ${message !== undefined && html`<p class="good" role="status">${message}</p>`}
          <dl>
            <dt>E-mail</dt>
            <dd>${email}</dd>
          </dl>
          <p>
            <a href="${root}/account/security">Sign-in settings</a> ·
            <a href="${root}/account/password">Change your password</a> ·
            <a href="${root}/account/email">Change your e-mail address</a> ·
            <a href="${invitations}">Your invitations</a>
            ${isOperator && html`· <a href="${root}/operator">Console of operators</a>`}
          </p>
        </div>
        ${sections} ${activitySection(activity, root)}`,
    });
    return htmlAnswer(200, page);
  });
}

const TRIES_COUNTED_DAYS = 30;

type Activity = {
  /** These are shown as counts: listed one by one, a guessing attack would push all other entries off the page. */
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

const activityRow = ({ action, app, address, userAgent, dateCreated }: AuditRow): Markup =>
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

function activitySection(activity: Activity, root: string): Markup {
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
          ${activity.entries.map(activityRow)}
        </tbody>
      </table>
    </section>
    ${(activity.older !== undefined || !activity.isLatest) && paging(activity, root)}
  </div>`;
}

/** Above this number the list says that there are more, which end with *Sign out all other browsers*. */
const BROWSERS_SHOWN = 50;

const boundToEnd = (id: number) => ['end session', id] as const;
const BOUND_TO_END_OTHERS = ['end other sessions'] as const;

const hashOf = ({ id }: { id: string }): Buffer => Buffer.from(id, 'hex');

function nameOf({ userAgent }: BrowserRow): string {
  const name = browserOf(userAgent);
  return name === '' ? 'Unknown browser' : name;
}

const endForm = (root: string, row: BrowserRow, nonce: string): Markup =>
  html`<form method="post" action="${root}/account/browsers/${row.id}/end">
    ${nonceField(nonce)}
    <button type="submit" class="quiet" aria-label="Sign out ${nameOf(row)}, ${row.address ?? 'unknown address'}">
      Sign out
    </button>
  </form>`;

const entry = (row: BrowserRow, end: Markup | false): Markup =>
  html`<li>
    <p><strong>${nameOf(row)}</strong> ${row.isThis && html`<span class="badge plain">This browser</span>`}</p>
    <dl>
      <dt>Network address</dt>
      <dd>${row.address ?? 'Unknown'}</dd>
      <dt>Last used</dt>
      <dd>${shownDate(row.dateSeen)}</dd>
      <dt>Signed in</dt>
      <dd>${shownDate(row.dateCreated)}</dd>
    </dl>
    ${end}
  </li>`;

export function browsersSection({ sql }: { sql: Sql }): AccountSection {
  return async ({ session, nonce, root, now, done }) => {
    const { userId } = session;
    const found = await listBrowsers(sql, { userId, hash: hashOf(session), now, limit: BROWSERS_SHOWN + 1 });
    const rows = found.slice(0, BROWSERS_SHOWN);
    const visits = await countPortalSessions(sql, userId, now);
    return html`<div class="card">
      <h2 id="browsers">Signed-in browsers</h2>
      ${done === 'ended' && html`<p class="good" role="status">Signed out. The browser no longer has access.</p>`}
      <ul class="entries" aria-labelledby="browsers">
        ${rows.map((row) => entry(row, !row.isThis && endForm(root, row, nonce(boundToEnd(row.id)))))}
      </ul>
      ${found.length > rows.length && html`<p class="soft">Only the latest ${BROWSERS_SHOWN} are shown.</p>`}
      ${visits > 0 && html`<p>Open visits to a store, with links of the platform: ${visits}</p>`}
      ${
        (found.length > 1 || visits > 0) &&
        postForm({
          action: `${root}/account/browsers/end-others`,
          hidden: { nonce: nonce(BOUND_TO_END_OTHERS) },
          submit: 'Sign out all other browsers',
          style: 'quiet',
        })
      }
    </div>`;
  };
}

const sessionIdOf = (request: RawRequest): number => idIn(request, 'session_id', 'browser');

const audit = (userId: number, request: RawRequest, sessions: number) =>
  ({ action: 'sessions_ended', userId, origin: originOf(request), detail: { sessions }, now: request.now }) as const;

/** A session that has already ended is not an error, so that a double click succeeds. */
export function createBrowsers({ sql, config }: Pick<Runtime, 'sql' | 'config'>, signedIn: SignedIn) {
  const done = () => redirectAnswer(`${rootOf(config.authUrl)}/account?done=ended#browsers`);
  return {
    end: signedIn.form(
      (request) => boundToEnd(sessionIdOf(request)),
      async (request, { userId }) => {
        await transaction(sql, async (tx) => {
          const hasEnded = await deleteSessionById(tx, { id: sessionIdOf(request), userId });
          if (hasEnded) await recordAuditEntry(tx, audit(userId, request, 1));
        });
        return done();
      },
    ),
    endOthers: signedIn.form(
      () => BOUND_TO_END_OTHERS,
      async (request, session) => {
        const { userId } = session;
        await transaction(sql, async (tx) => {
          const ended = await deleteOtherSessions(tx, { userId, hash: hashOf(session) });
          if (ended > 0) await recordAuditEntry(tx, audit(userId, request, ended));
        });
        return done();
      },
    ),
  };
}
