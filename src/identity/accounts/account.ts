/** GET /account: the signed-in user, the connected apps and the latest activity. */
import type { Sql } from '#db/pool.ts';
import { htmlAnswer } from '#http/answers.ts';
import { doneSentence } from '#http/pages/done.ts';
import type { RawHandler } from '#http/route.ts';
import type { Markup } from '#hypermedia/markup.ts';
import { parseId } from '#core/ids.ts';
import { accountPage } from './account-page.ts';
import { TRIES_COUNTED_DAYS } from './activity.ts';
import { countTries, latestAuditEntries } from './audit/audit-sql.ts';
import type { Session } from './sessions.ts';
import type { SignedIn } from './signed-in.ts';

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

export function createAccount(deps: {
  sql: Sql;
  signedIn: SignedIn;
  sections: readonly AccountSection[];
  baseUrl: string;
  root: string;
}): RawHandler {
  const { sql, signedIn, root } = deps;
  return signedIn.page(async ({ query, now }, session) => {
    const visit = {
      session,
      now,
      nonce: (bound: readonly (string | number)[]) => signedIn.nonce(session, bound),
      root,
      done: query.get('done'),
    };
    const sections = await Promise.all(deps.sections.map((section) => section(visit)));
    const { userId, email } = session;
    const before = parseId(query.get('before') ?? '');
    const found = await latestAuditEntries(sql, { userId, before, limit: ENTRIES_SHOWN + 1 });
    const entries = found.slice(0, ENTRIES_SHOWN);
    const older = found.length > ENTRIES_SHOWN ? entries.at(-1)?.id : undefined;
    const tries = await countTries(sql, userId, new Date(now.getTime() - TRIES_COUNTED_DAYS * DAY_MS));
    const invitations = new URL(`${deps.baseUrl}/users/${userId}/invitations`).pathname;
    const message = DONE.get(visit.done ?? '') ?? doneSentence(query);
    const activity = { tries, entries, older, isLatest: before === undefined };
    return htmlAnswer(200, accountPage({ root, email, invitations, message, sections, activity }));
  });
}
