/** A new password by a mailed link: GET and POST /reset-password. */
import { inPerson } from '#changelog/changelog.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import { originOf } from '../audit/audit.ts';
import type { Devices } from '../device.ts';
import type { Passwords } from '../passwords.ts';
import { lockUser } from '../accounts-sql.ts';
import type { Sessions } from '../sessions.ts';
import { passwordFault } from '../users.ts';
import { hashOfLink } from './links.ts';
import { deadLinkPage, resetPage } from './pages.ts';
import { consumeReset, findReset } from './password-sql.ts';
import { replacePassword, type EndGrants } from './replace.ts';

type Deps = {
  sql: Sql;
  passwords: Passwords;
  sessions: Sessions;
  devices: Devices;
  endGrants: EndGrants;
  root: string;
};

type Choice = { userId: number; hash: Buffer; passwordHash: string };

/** The cookie of the new session; undefined where the link was used in the meantime. */
const redeem = (deps: Deps, request: RawRequest, choice: Choice): Promise<string | undefined> =>
  transaction(deps.sql, async (tx) => {
    const { userId, hash, passwordHash } = choice;
    const { now } = request;
    const user = await lockUser(tx, userId);
    if (user === undefined || user.isDisabled || !(await consumeReset(tx, hash, now))) return undefined;
    const endGrants = request.form.get('end_grants') === '1' ? deps.endGrants : undefined;
    await replacePassword(tx, {
      action: 'password_reset',
      userId,
      passwordHash,
      endGrants,
      actor: inPerson(userId),
      origin: originOf(request),
      now,
    });
    // Somebody else may be signed in in this browser.
    await deps.sessions.end(tx, request);
    return deps.sessions.start(tx, userId, now);
  });

export const createReset = (deps: Deps): Record<'show' | 'submit', RawHandler> => {
  const { sql, passwords, root } = deps;
  const dead = () => htmlAnswer(410, deadLinkPage(root));
  const find = async (token: string | null, now: Date) => {
    const hash = hashOfLink(token);
    const found = hash === undefined ? undefined : await findReset(sql, hash, now);
    return hash === undefined || found === undefined ? undefined : { ...found, hash, token: token ?? '' };
  };

  return {
    // Looks only: whatever opens links in mails beforehand uses none up.
    show: async ({ query, now }) => {
      const link = await find(query.get('token'), now);
      return link === undefined ? dead() : htmlAnswer(200, resetPage({ ...link, root, fault: undefined }));
    },

    submit: async (request) => {
      const link = await find(request.form.get('token'), request.now);
      if (link === undefined) return dead();
      const password = request.form.get('password') ?? '';
      const fault = await passwordFault({ email: link.email, password });
      if (fault !== undefined) {
        const message = `The new ${fault.message}.`;
        return htmlAnswer(422, resetPage({ ...link, root, fault: { field: 'password', message } }));
      }
      const { userId, email, hash } = link;
      const passwordHash = await passwords.hash(password);
      const session = await redeem(deps, request, { userId, hash, passwordHash });
      if (session === undefined) return dead();
      const cookies = [session, ...deps.devices.remember(request, { email, passwordHash })];
      return redirectAnswer(`${root}/account?done=password`, { 'Set-Cookie': cookies });
    },
  };
};
