/**
 * How accounts end: disables people and enables them again, and erases users with their sessions, memberships, grants and apps, in one transaction. An account
 * whose e-mail address is not verified is also erased when a person verifies the address, and gets a new account: an invitation link can be
 * handed over and used under any address, and nothing that was set on the old account may remain.
 */
import { actorOf, inPerson, type Actor, type Change, type Changelog } from '#changelog/changelog.ts';
import { transaction, type Tx, type Queryable, type Sql } from '#db/pool.ts';
import { deleteKeysOf } from '#http/external-keys-sql.ts';
import type { ApiRequest } from '#http/operation.ts';
import { notFound, conflict } from '#core/problem.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { originOf, recordAuditEntry, type AuditEntry } from './audit.ts';
import {
  deleteUser,
  lockForErasure,
  lockMemberships,
  findUser,
  listSoleStores,
  lockSoleOwnership,
  type SoleStore,
} from './users-sql.ts';
import {
  lockUnverified,
  deleteSessionsOf,
  lockOperators,
  updateDisabled,
  latestAuditEntries,
  listBrowsers,
  listIdentities,
  type Credentials,
} from './accounts-sql.ts';
import { htmlAnswer, jsonAnswer } from '#http/answers.ts';
import { rootOf } from '#http/root.ts';
import { html } from '#hypermedia/markup.ts';
import { inPersonOf } from '#core/principal.ts';
import type { AccountSection } from './account-page.ts';
import { listEmailChanges } from './links-sql.ts';
import { findFactors } from './factors/factors-sql.ts';
import { erasedMail } from './account-mails.ts';
import {
  accountNav,
  alertOf,
  cardPage,
  currentPasswordField,
  nonceField,
  noticeAnswer,
  postForm,
  usernameField,
  type FormFault,
} from './page-kit.ts';
import { lockVerified } from './throttle.ts';
import { passwordPage, type People } from './people.ts';
import type { Session } from './sessions.ts';

// Erasing and disabling.

type ErasureRequest = Pick<ApiRequest, 'address' | 'headers' | 'now'>;

/** Erases a user's data in other modules, in the transaction of the erasure. */
export type EraseUserData = {
  /** Locks the rows that must be locked before memberships. */
  lock: (tx: Tx, userId: number) => Promise<void>;
  erase: (
    tx: Tx,
    of: { userId: number; actor: Actor; request: ErasureRequest } & Pick<AuditEntry, 'client' | 'origin' | 'now'>,
  ) => Promise<void>;
};

/** Throws if the user must not be erased. It locks memberships in the order of shard, store and user. */
type MayErase = (tx: Tx) => Promise<void>;

/**
 * Erases a user whose row the transaction has locked for it. Audit entries (until retention deletes them) and the changelogs of the
 * user's stores remain; they identify the user by id.
 *
 * Lock order: user, apps, the sandbox store, memberships, grants. An approval uses the same order, and the erasure of a store also locks
 * memberships before grants; another order could deadlock.
 */
async function eraseLockedUser(
  tx: Tx,
  { changelog, eraseUserData }: { changelog: Changelog; eraseUserData: EraseUserData },
  erased: { userId: number; actor: Actor; client: number | null; request: ErasureRequest },
  mayErase?: MayErase,
): Promise<void> {
  const { userId, actor, client, request } = erased;
  const { now } = request;
  const by = { userId, client, origin: originOf(request), now };
  await eraseUserData.lock(tx, userId);
  await mayErase?.(tx);
  const memberships = await lockMemberships(tx, userId);
  await eraseUserData.erase(tx, { ...by, actor, request });
  await recordAuditEntry(tx, { ...by, action: 'user_erased' });
  await deleteKeysOf(tx, { resource: 'user', ids: [userId] });
  await deleteUser(tx, userId);
  const changes = memberships.map(({ storeId, role }): Change => {
    const before = { user_id: userId, role };
    return { storeId, actor, resource: 'member', resourceId: userId, action: 'deleted', before, after: null };
  });
  await changelog.record(tx, changes, now);
}

export type UserErasure = ReturnType<typeof createUserErasure>;

export function createUserErasure(
  { sql }: Pick<Runtime, 'sql'>,
  effects: { changelog: Changelog; eraseUserData: EraseUserData },
) {
  return {
    /** Erases a user. Throws a 404 if the user does not exist. */
    eraseUser: (
      userId: number,
      request: ErasureRequest & Pick<ApiRequest, 'principal' | 'unmodified'>,
      mayErase?: MayErase,
    ): Promise<void> =>
      transaction(sql, async (tx) => {
        const revision = await lockForErasure(tx, userId);
        if (revision === undefined) throw notFound('user');
        request.unmodified(revision);
        const { principal } = request;
        const by = { actor: actorOf(principal), client: principal.clientId, request };
        await eraseLockedUser(tx, effects, { userId, ...by }, mayErase);
      }),
    /** Erases the account with this address unless it is verified. Call it before the account of the person is added. */
    eraseUnverified: async (tx: Tx, email: string, request: ErasureRequest): Promise<void> => {
      const userId = await lockUnverified(tx, email);
      if (userId === undefined) return;
      await eraseLockedUser(tx, effects, { userId, actor: inPerson(userId), client: null, request });
    },
  };
}

/** Applies the end or the return of the access of the apps of a user. */
type AccessChanged = (tx: Queryable, scope: { userId: number }, now: Date) => Promise<void>;

type Disabling = {
  userId: number;
  isDisabled: boolean;
  /** The operator, and the reason to disable the user; absent for the command line. */
  by?: { operatorId: number; reason: string | null };
  now: Date;
};

/**
 * Disables or enables a user. Disabling ends all sessions for good; the grants of the user stay, and are in effect again when the user is
 * enabled. Does nothing if that is done already.
 */
export async function setDisabledIn(
  tx: Tx,
  accessChanged: AccessChanged,
  { userId, isDisabled, by, now }: Disabling,
): Promise<void> {
  const reason = by?.reason ?? null;
  if (!(await updateDisabled(tx, userId, isDisabled ? now : null, reason))) return;
  if (isDisabled) await deleteSessionsOf(tx, userId);
  await accessChanged(tx, { userId }, now);
  const action = isDisabled ? 'user_disabled' : 'user_enabled';
  const detail = by === undefined ? {} : { operator: String(by.operatorId), ...(reason !== null && { reason }) };
  await recordAuditEntry(tx, { action, userId, origin: null, detail, now });
}

const SELF = 'An operator cannot suspend their own account, so that one remains: another operator can';

/**
 * Suspends a person for a reason, or ends the suspension (null). Throws a 409 `own_account` for the operator's own account, and a 404 if the
 * operator has lost the role or been suspended meanwhile: the locks let one of two operators who suspend each other win.
 */
export function setPersonSuspension(
  sql: Sql,
  accessChanged: AccessChanged,
  userId: number,
  { reason, operatorId, now }: { reason: string | null; operatorId: number; now: Date },
): Promise<void> {
  return transaction(sql, async (tx) => {
    if (!(await lockOperators(tx)).includes(operatorId)) throw notFound('page');
    if (userId === operatorId) throw conflict('own_account', SELF);
    await setDisabledIn(tx, accessChanged, { userId, isDisabled: reason !== null, by: { operatorId, reason }, now });
  });
}

/** Returns a part of the export from another module, without secrets. */
type ExportPart = (userId: number) => Promise<unknown>;

/** The parts of the export from other modules, by its member. */
export type ExportParts = Readonly<Record<string, ExportPart>>;

// What a person may do with the own account as a whole: POST /account/export downloads it, /account/erase erases it.

const EXPORT_FORM = ['export account'] as const;
const EXPORTED_SESSIONS_MAX = 1_000;
const EXPORTED_ENTRIES_MAX = 10_000;

/** Returns these members of rows, named as in the API. */
export function exported<Row, Name extends keyof Row & string>(rows: readonly Row[], ...names: readonly Name[]) {
  const named = names.map(
    (name) => [name.replaceAll(/[A-Z]/g, (capital) => `_${capital.toLowerCase()}`), name] as const,
  );
  return rows.map((row) => Object.fromEntries(named.map(([member, name]) => [member, row[name]])));
}

/** Returns all that is stored about a person, except secrets and their hashes. */
async function exportOf(sql: Sql, exportParts: ExportParts, { userId, id }: Session, now: Date) {
  const user = await findUser(sql, userId);
  if (user === undefined) throw notFound('account');
  const sessions = { userId, hash: Buffer.from(id, 'hex'), now, limit: EXPORTED_SESSIONS_MAX };
  const { passkeys, hasApp } = await findFactors(sql, userId);
  const parts: [string, unknown][] = [];
  for (const [name, part] of Object.entries(exportParts)) parts.push([name, await part(userId)]);
  return {
    date_exported: now,
    person: exported([user], 'id', 'email', 'isEmailVerified', 'dateCreated')[0],
    ...Object.fromEntries(parts),
    address_changes: exported(
      await listEmailChanges(sql, userId),
      'oldEmail',
      'newEmail',
      'dateCreated',
      'dateChanged',
    ),
    passkeys: exported(passkeys, 'name', 'dateCreated', 'dateUsed'),
    has_authenticator_app: hasApp,
    linked_providers: exported(await listIdentities(sql, userId), 'issuer', 'subject', 'dateCreated', 'dateUsed'),
    sessions: exported(await listBrowsers(sql, sessions), 'address', 'userAgent', 'dateCreated', 'dateSeen'),
    audit: exported(
      await latestAuditEntries(sql, { userId, limit: EXPORTED_ENTRIES_MAX, before: undefined, hasTries: true }),
      'action',
      'app',
      'storeId',
      'address',
      'userAgent',
      'dateCreated',
    ),
  };
}

class NotErased extends Error {
  readonly reason: 'only owner' | 'password changed';
  constructor(reason: NotErased['reason']) {
    super(reason);
    this.reason = reason;
  }
}

/** Throws unless the password is still the verified one and every store of the user has another owner. */
const mayErase =
  (user: Credentials) =>
  async (tx: Tx): Promise<void> => {
    if ((await lockVerified(tx, user)) === undefined) throw new NotErased('password changed');
    if (await lockSoleOwnership(tx, user.id)) throw new NotErased('only owner');
  };

type EraseView = { email: string; nonce: string; fault: FormFault | undefined };

const ERASE = 'Erase your account';

/** Says which stores need another owner before their only owner can erase the account. */
function refusalPage(stores: readonly SoleStore[], { baseUrl, authUrl }: Runtime['config']): string {
  const membersOf = (id: number): string => new URL(`${baseUrl}/stores/${id}/members`).pathname;
  const root = rootOf(authUrl);
  const content = html`<p class="alert" role="alert">You are the only owner of these stores, which need one:</p>
    <ul>
      ${stores.map(
        ({ id, name, hasMembers }) =>
          html`<li>
            <strong>${name}</strong>:
            ${
              hasMembers
                ? html`make <a href="${membersOf(id)}">another member</a> an owner`
                : html`<a href="${membersOf(id)}">invite</a> another owner, or ask the operator of this service to erase
                    the store`
            }
          </li>`,
      )}
    </ul>
    <p>You can erase your account then.</p>
    <p><a href="${root}/account">Your account</a></p>`;
  return cardPage(ERASE, content, accountNav(root));
}

const erasePage = (root: string, { email, nonce, fault }: EraseView): string =>
  cardPage(
    ERASE,
    html`${alertOf(fault)}
      <p>
        This erases the account <strong>${email}</strong> with its memberships, connected apps, browsers, your own apps
        and your sandbox store, at once and for good. Other stores and their data stay. The activity stays for a year:
        it has the network addresses and browsers, but not your e-mail address.
      </p>
      ${postForm({
        action: `${root}/account/erase`,
        hidden: { nonce },
        fields: html`${usernameField(email)} ${currentPasswordField(fault)}`,
        submit: 'Erase the account',
        style: 'danger',
        cancel: { href: `${root}/account` },
      })}`,
    accountNav(root),
  );

export function leaveSection(): AccountSection {
  return async ({ nonce, root }) =>
    html`<div class="card">
      <h2 id="data">Your data</h2>
      <p>
        A file (JSON) with your account, memberships, connected and own apps, passkeys, signed-in browsers and activity,
        without passwords and tokens.
      </p>
      <form method="post" action="${root}/account/export">
        ${nonceField(nonce(EXPORT_FORM))}
        <button type="submit" class="quiet">Download your data</button>
      </form>
      <p><a href="${root}/account/erase">Erase your account …</a></p>
    </div>`;
}

export function createLeave(
  runtime: Runtime,
  people: People,
  { erasure, exportParts }: { erasure: UserErasure; exportParts: ExportParts },
) {
  const { sql, mailer, config } = runtime;
  const { signedIn, sessions } = people;
  const { authUrl } = config;
  const root = rootOf(authUrl);
  return {
    export: signedIn.sensitiveForm(
      () => EXPORT_FORM,
      async (request, session) => {
        const { now } = request;
        const { userId } = session;
        const account = await exportOf(sql, exportParts, session, now);
        await transaction(sql, (tx) =>
          recordAuditEntry(tx, { action: 'account_exported', userId, origin: originOf(request), now }),
        );
        return jsonAnswer(200, account, { 'Content-Disposition': 'attachment; filename="account.json"' });
      },
    ),
    erase: passwordPage(runtime, people, signedIn, {
      name: 'erase account',
      render: async (session, { nonce, fault }) => {
        const stores = await listSoleStores(sql, session.userId);
        return stores.length > 0
          ? refusalPage(stores, config)
          : erasePage(root, { email: session.email, nonce, fault });
      },
      submit: async (request, _session, user) => {
        try {
          const by = { ...request, principal: inPersonOf(user.id), unmodified: () => {} };
          await erasure.eraseUser(user.id, by, mayErase(user));
        } catch (error) {
          if (!(error instanceof NotErased)) throw error;
          if (error.reason === 'password changed') return undefined;
          return htmlAnswer(409, refusalPage(await listSoleStores(sql, user.id), config));
        }
        mailer?.send(erasedMail({ to: user.email, authUrl }));
        const { cookie } = await sessions.end(sql, request);
        const notice = {
          title: 'Account erased',
          good: 'Your account is erased, and all browsers and apps have lost their access.',
          link: { href: `${root}/sign-in`, label: 'Sign in with another account' },
        };
        return noticeAnswer(200, notice, { 'Set-Cookie': cookie });
      },
    }),
  };
}
