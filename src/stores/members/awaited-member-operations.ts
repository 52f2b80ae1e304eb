/**
 * Members by their account at an OpenID provider. The platform names the account, and the person who signs in with it is the member: the
 * operator trusts the providers that it has configured. Without a user who has linked the account, the membership waits for a sign-in.
 */
import { HALCYON } from '#changelog/changelog.ts';
import { transaction, type Queryable, type Tx } from '#db/pool.ts';
import { listing } from '#http/list-operation.ts';
import { guarded, type ApiRequest, type CreatedResult, type Operation } from '#http/operation.ts';
import { conflict, invalid, notFound } from '#core/problem.ts';
import { storeOfAddress } from '#core/principal.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { byOf, recordMember, removeMemberWithEntry, type MemberEffects } from '../audited-changes.ts';
import { addressOfStore } from '../store-document.ts';
import { storeOf } from '../store.ts';
import {
  addressOfAwaited,
  AWAITED_PROPERTIES,
  awaitedDocument,
  readIdentity,
  type Identity,
  addressOfMembers,
  type Role,
} from './member.ts';
import {
  countAwaited,
  deleteAwaited,
  findAwaited,
  listAwaited,
  listStoresAwaiting,
  noteMember,
  upsertAwaited,
  countMembers,
  findMember,
  insertMember,
  lockMembersOf,
} from './members-sql.ts';
import type { StoreKey } from '#core/ids.ts';

/** Returns the user who has linked an account at a provider. */
export type UserOfIdentity = (sql: Queryable, identity: Identity) => Promise<number | undefined>;

const issuersOf = ({ config: { accounts } }: Pick<Runtime, 'config'>): string[] =>
  accounts.openIdProviders.map(({ issuer }) => issuer);

/** Returns the identity in the body. Throws a 400 that names the configured issuers. */
export function identityOf(runtime: Pick<Runtime, 'config'>, sent: Readonly<Record<string, unknown>>): Identity {
  return readIdentity(sent, issuersOf(runtime));
}

/** Stores the membership until the first sign-in with the account; a second request changes its role. The store is locked. */
export async function awaitMember(
  tx: Tx,
  { config: { baseUrl, stores } }: Pick<Runtime, 'config'>,
  { storeId, shard, now, role, ...identity }: StoreKey & { role: Role; now: Date } & Identity,
): Promise<CreatedResult> {
  const key = { shard, storeId, ...identity };
  const isKnown = (await findAwaited(tx, key)) !== undefined;
  await upsertAwaited(tx, { ...key, role, now });
  const { membersPerStore: limit } = stores;
  if (!isKnown && (await countAwaited(tx, key)) > limit)
    throw conflict('limit_reached', `At most ${limit} memberships of a store can wait for a sign-in; end one first`);
  const row = await findAwaited(tx, key);
  if (row === undefined) throw new Error('A membership that was just stored does not exist');
  const location = addressOfAwaited(storeId, baseUrl);
  return { document: awaitedDocument(row, { baseUrl }), location, ...(isKnown && { isKnown }) };
}

/** Makes a person a member of the stores that wait for the account with which they sign in. Call it in the transaction of the sign-in. */
export type AdmitIdentity = (tx: Tx, of: Identity & { userId: number; now: Date }) => Promise<void>;

/** A store that has its maximum of members goes on waiting. A member keeps the role. */
export function createAdmission(
  { config: { stores } }: Pick<Runtime, 'config'>,
  { changelog, memberAccess }: MemberEffects,
): AdmitIdentity {
  return async (tx, { issuer, subject, userId, now }) => {
    for (const store of await listStoresAwaiting(tx, { issuer, subject })) {
      const isOpen = (await lockMembersOf(tx, store)) && (await countMembers(tx, store)) < stores.membersPerStore;
      const waiting = isOpen ? await findAwaited(tx, { ...store, issuer, subject }) : undefined;
      if (waiting === undefined) continue;
      const { role } = waiting;
      const key = { ...store, userId };
      const isNew = await insertMember(tx, { ...key, role, now });
      await noteMember(tx, { ...key, issuer, subject, role, now });
      if (!isNew) continue;
      await recordMember(tx, key, { before: null, after: role }, { changelog, actor: HALCYON, now });
      await memberAccess.begin(tx, key, now);
    }
  };
}

const REQUIRED = {
  code: 'required',
  message: 'Send the issuer and the subject of the account at the OpenID provider',
  field: 'issuer',
};

async function endMembership(
  tx: Tx,
  { effects, userOfIdentity }: Deps,
  request: ApiRequest<undefined>,
  identity: Identity,
): Promise<void> {
  const store = storeOfAddress(request);
  const noted = await deleteAwaited(tx, { ...store, ...identity });
  const userId = noted?.userId ?? (await userOfIdentity(tx, identity));
  const isMember = userId !== undefined && (await findMember(tx, { ...store, userId })) !== undefined;
  if (isMember) {
    const by = { ...byOf(effects.changelog, request), access: effects.memberAccess, request };
    await removeMemberWithEntry(tx, { storeId: store.storeId, userId }, by);
  } else if (noted === undefined) throw notFound('member');
}

type Deps = { effects: MemberEffects; userOfIdentity: UserOfIdentity };

export function createAwaitedMembers(runtime: Runtime, deps: Deps): Record<'list' | 'end', Operation> {
  const { sql, config } = runtime;
  const { baseUrl } = config;
  return {
    list: listing({
      summary: 'The memberships that wait for the first sign-in of their person, in pages; needs the scope platform',
      access: 'platform',
      rel: 'awaited_members',
      title: 'Memberships that wait for a sign-in',
      properties: AWAITED_PROPERTIES,
      zone: async (request) => (await storeOf(sql.reads, request)).timeZone,
      handle: async (request) => {
        const store = storeOfAddress(request);
        await storeOf(sql.reads, request);
        const [rows, total] = await Promise.all([
          listAwaited(sql, store, request.listing),
          countAwaited(sql, store, request.listing),
        ]);
        const links = [
          { rel: 'store', href: addressOfStore(store.storeId, baseUrl), title: 'The store', crumb: 'Store' },
          { rel: 'members', href: addressOfMembers(store.storeId, baseUrl), title: 'The members', crumb: 'Members' },
        ];
        const items = rows.map((row) => awaitedDocument(row, { baseUrl }));
        return { path: addressOfAwaited(store.storeId, baseUrl), items, total, links };
      },
    }),
    end: guarded({
      title: 'End the membership of an account at an OpenID provider',
      summary:
        'Removes the member who signs in with this account, or ends the wait for the first sign-in; needs the scope platform',
      access: 'platform',
      modifiers: ['issuer', 'subject'],
      handle: async (request) => {
        const [issuer, subject] = [request.query.get('issuer'), request.query.get('subject')];
        await storeOf(sql, request);
        if (!issuer || !subject) throw invalid(REQUIRED);
        // PostgreSQL stores no NUL, so no identity has one.
        if (`${issuer}${subject}`.includes('\0')) throw notFound('member');
        await transaction(sql, (tx) => endMembership(tx, deps, request, { issuer, subject }));
        return { status: 204 };
      },
    }),
  };
}
