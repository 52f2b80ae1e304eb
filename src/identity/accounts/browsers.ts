/** The signed-in browsers of a person: a section of the account page, and POST /account/browsers/… which end sessions. */
import { transaction, type Sql } from '#db/pool.ts';
import { redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDate } from '#hypermedia/shown-date.ts';
import { parseId } from '#core/ids.ts';
import { notFound } from '#core/problem.ts';
import type { AccountSection } from './account.ts';
import { originOf, recordAuditEntry } from './audit/audit.ts';
import { browserOf } from './audit/describe.ts';
import { deleteOtherSessions, deleteSessionById, listBrowsers, type BrowserRow } from './browsers-sql.ts';
import type { SignedIn } from './signed-in.ts';

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
    <input type="hidden" name="nonce" value="${nonce}" />
    <button type="submit" class="quiet" aria-label="Sign out ${nameOf(row)}, ${row.address ?? 'unknown address'}">
      Sign out
    </button>
  </form>`;

const entry = (row: BrowserRow, end: Markup | false): Markup =>
  html`<li>
    <p><strong>${nameOf(row)}</strong> ${row.isThis && html`<span class="badge">This browser</span>`}</p>
    <dl>
      <dt>Network address</dt>
      <dd>${row.address ?? 'Unknown'}</dd>
      <dt>Last used</dt>
      <dd>${shownDate(row.lastSeen)}</dd>
      <dt>Signed in</dt>
      <dd>${shownDate(row.since)}</dd>
    </dl>
    ${end}
  </li>`;

const endOthersForm = (root: string, nonce: string): Markup =>
  html`<form method="post" action="${root}/account/browsers/end-others">
    <input type="hidden" name="nonce" value="${nonce}" />
    <button type="submit" class="quiet">Sign out all other browsers</button>
  </form>`;

export function browsersSection({ sql }: { sql: Sql }): AccountSection {
  return async ({ session, nonce, root, now, done }) => {
    const { userId } = session;
    const found = await listBrowsers(sql, { userId, hash: hashOf(session), now, limit: BROWSERS_SHOWN + 1 });
    const rows = found.slice(0, BROWSERS_SHOWN);
    return html`<div class="card">
      <h2 id="browsers">Signed-in browsers</h2>
      ${done === 'ended' && html`<p class="good" role="status">Signed out. The browser no longer has access.</p>`}
      <ul class="entries" aria-labelledby="browsers">
        ${rows.map((row) => entry(row, !row.isThis && endForm(root, row, nonce(boundToEnd(row.id)))))}
      </ul>
      ${found.length > rows.length && html`<p class="soft">Only the latest ${BROWSERS_SHOWN} are shown.</p>`}
      ${found.length > 1 && endOthersForm(root, nonce(BOUND_TO_END_OTHERS))}
    </div>`;
  };
}

function sessionIdOf({ params }: RawRequest): number {
  const id = parseId(params['session_id'] ?? '');
  if (id === undefined) throw notFound('browser');
  return id;
}

const audit = (userId: number, request: RawRequest, sessions: number) =>
  ({ action: 'sessions_ended', userId, origin: originOf(request), detail: { sessions }, now: request.now }) as const;

/** A session that has already ended is not an error, so that a double click succeeds. */
export function createBrowsers(deps: {
  sql: Sql;
  signedIn: SignedIn;
  root: string;
}): Record<'end' | 'endOthers', RawHandler> {
  const { sql, signedIn } = deps;
  const done = () => redirectAnswer(`${deps.root}/account?done=ended#browsers`);
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
