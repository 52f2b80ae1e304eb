/**
 * API operations on the members of a store: {base_url}/stores/<id>/members. All callers with access to the store can read them;
 * the platform and signed-in owners can change them, and every member can leave. One owner always remains.
 */
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import { creating } from '#http/idempotency.ts';
import { listing } from '#http/list-operation.ts';
import {
  accepting,
  guarded,
  type ApiRequest,
  type CreatedResult,
  type Operation,
  type AddressedRequest,
} from '#http/operation.ts';
import type { Document, Link } from '#hypermedia/document.ts';
import { parseId } from '#core/ids.ts';
import { notFound, Problem, invalid, invalidValue } from '#core/problem.ts';
import { isPerson, managesStore, storeOfAddress, type Principal } from '#core/principal.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { storeOf } from '../store.ts';
import { addressOfStore } from '../store-document.ts';
import { byOf, recordMember, removeMemberWithEntry, type MemberEffects } from '../audited-changes.ts';
import {
  addressOfAwaited,
  type Identity,
  addressOfMembers,
  MEMBER_PROPERTIES,
  memberDocument,
  changedMember,
  newMember,
  type NewMember,
  type Role,
} from './member.ts';
import { awaitMember, identityOf, type UserOfIdentity } from './awaited-member-operations.ts';
import {
  findNoted,
  noteMember,
  countMembers,
  findMember,
  hasOtherOwner,
  lockMembersOf,
  lockUserRow,
  insertMember,
  isSandbox,
  listMembers,
  lockMember,
  updateRole,
  type MemberRow,
  findVerifiedUser,
} from './members-sql.ts';
import { readEmail } from '#core/email.ts';

type Deps = {
  effects: MemberEffects;
  /** Makes an invitation for a person without an account, or with one whose e-mail address is not verified. */
  inviting: Inviting;
  userOfIdentity: UserOfIdentity;
};
function memberKeyOf(request: AddressedRequest) {
  const userId = parseId(request.params['user_id'] ?? '');
  if (userId === undefined) throw notFound('member');
  return { ...storeOfAddress(request), userId };
}

/**
 * Returns the member of the address and locks the row. Throws if the caller's version is stale or the only owner would be lost.
 */
async function lockedMember(
  tx: Tx,
  request: AddressedRequest & Pick<ApiRequest, 'unmodified'>,
  { remainsOwner }: { remainsOwner: boolean },
): Promise<MemberRow> {
  const key = memberKeyOf(request);
  // Locks all owners in order before the member. The platform may remove the last owner, to give the store to others.
  const mayLoseOwner = remainsOwner || request.principal.scope === 'platform' || (await hasOtherOwner(tx, key));
  const member = await lockMember(tx, key);
  if (member === undefined) throw notFound('member');
  request.unmodified(member.role);
  if (member.role === 'owner' && !mayLoseOwner) throw new Problem(409, { code: 'last_owner', message: LAST_OWNER });
  return member;
}

const LAST_OWNER =
  'This is the only owner of the store: make another member an owner first, or ask the operator of this service';

const ALREADY_MEMBER = 'This person is a member of the store already: change the role of the existing member';

function tooManyMembers(membersPerStore: number): Problem {
  const message = `A store has at most ${membersPerStore} members; remove one first`;
  return new Problem(409, { code: 'limit_reached', message });
}

async function addUser(
  { config: { baseUrl, stores } }: Runtime,
  effects: MemberEffects,
  tx: Tx,
  { request, userId, identity }: { request: ApiRequest<NewMember>; userId: number; identity?: Identity },
): Promise<CreatedResult> {
  const { role, email } = request.body;
  const store = storeOfAddress(request);
  const key = { ...store, userId };
  const location = `${addressOfMembers(key.storeId, baseUrl)}/${userId}`;
  if (!(await lockMembersOf(tx, store))) throw notFound('store');
  const known = identity === undefined ? undefined : await findMember(tx, key);
  const note = async (): Promise<void> => {
    if (identity !== undefined) await noteMember(tx, { ...key, ...identity, role, now: request.now });
  };
  if (known !== undefined) {
    await note();
    return { document: memberDocument(known, { ...request, baseUrl }), location, isKnown: true };
  }
  if (!(await lockUserRow(tx, userId))) throw unknownUser();
  if (!(await insertMember(tx, { ...key, role, now: request.now })))
    throw new Problem(409, {
      code: 'already_member',
      message: ALREADY_MEMBER,
      field: email === undefined ? 'user' : 'email',
    });
  if ((await countMembers(tx, store)) > stores.membersPerStore) throw tooManyMembers(stores.membersPerStore);
  const member = await findMember(tx, key);
  if (member === undefined) throw new Error('A member that was just added does not exist');
  await note();
  await recordMember(tx, key, { before: null, after: role }, byOf(effects.changelog, request));
  await effects.memberAccess.begin(tx, key, request.now);
  return { document: memberDocument(member, { ...request, baseUrl }), location };
}

/**
 * Creates the operation that adds a member. Only the platform adds people who have not accepted, and only if their address
 * is verified. A second addition is rejected, so that it cannot demote an owner.
 */
const createAdd = (runtime: Runtime, { effects, inviting, userOfIdentity }: Deps): Operation =>
  creating({
    title: 'Add a member',
    summary:
      'Adds a person to the store; without an account whose e-mail address is verified, the response is an invitation instead; needs the scope platform: people invite',
    access: 'platform',
    statuses: [200, 201],
    isSensitive: true,
    input: newMember,
    admit: async (request) => void (await storeOf(runtime.sql.reads, request)),
    prepare: async (request): Promise<Prepared> => {
      requireOneName(request.body);
      const { identity } = request.body;
      if (identity !== undefined) return { identity: identityOf(runtime, identity) };
      const userId = await findNewMember(runtime.sql, request.body);
      return userId === undefined ? { invited: await inviting.prepare(request) } : { userId };
    },
    make: async (tx, request, prepared) => {
      if ('invited' in prepared) return inviting.make(tx, request, prepared.invited);
      if ('userId' in prepared) return addUser(runtime, effects, tx, { request, userId: prepared.userId });
      const { identity } = prepared;
      const store = storeOfAddress(request);
      const userId = (await findNoted(tx, { ...store, ...identity })) ?? (await userOfIdentity(tx, identity));
      if (userId !== undefined) return addUser(runtime, effects, tx, { request, userId, identity });
      if (!(await lockMembersOf(tx, store))) throw notFound('store');
      const { role } = request.body;
      return awaitMember(tx, runtime, { ...store, ...identity, role, now: request.now });
    },
  });

/** The person to add: a user, the invitation of a person, or an account at an OpenID provider. */
type Prepared = { userId: number } | { invited: PreparedInvitation } | { identity: Identity };

const createRemove = ({ sql, config: { baseUrl } }: Runtime, effects: MemberEffects): Operation =>
  guarded({
    title: 'Remove the member',
    isConditional: true,
    isSensitive: true,
    summary:
      'Removes a person from the store: the person and the apps that they authorized lose access immediately; for signed-in owners, the scope platform, and the person themselves, who leaves',
    access: 'self',
    handle: async (request) => {
      const key = memberKeyOf(request);
      await transaction(sql, (tx) =>
        removeMemberWithEntry(tx, key, {
          ...byOf(effects.changelog, request),
          access: effects.memberAccess,
          request,
          // The developer returns to a sandbox store without an owner.
          check: async () => lockedMember(tx, request, { remainsOwner: await isSandbox(tx, key) }),
        }),
      );
      if (isPerson(request.principal, key.userId)) return { status: 204, next: `${baseUrl}/stores`, done: 'left' };
      return { status: 204, next: addressOfMembers(key.storeId, baseUrl) };
    },
  });

/** Returns the links of the list of members; those to invitations only for callers that manage the store. */
function linksOf(principal: Principal, storeId: number, baseUrl: string): Link[] {
  const store = addressOfStore(storeId, baseUrl);
  return [
    { rel: 'store', href: store, title: 'The store', crumb: 'Store' },
    ...(managesStore(principal, storeId)
      ? [{ rel: 'invitations', href: `${store}/invitations`, title: 'The invitations to this store' }]
      : []),
    ...(principal.scope === 'platform'
      ? [
          {
            rel: 'awaited_members',
            href: addressOfAwaited(storeId, baseUrl),
            title: 'The memberships that wait for a sign-in',
          },
        ]
      : []),
  ];
}

export function createMemberOperations(runtime: Runtime, deps: Deps) {
  const { effects, inviting } = deps;
  const { sql, config } = runtime;
  const { baseUrl } = config;
  return {
    list: listing({
      summary: 'The members of the store, in pages',
      scopes: ['store_read'],
      rel: 'members',
      title: 'The members of this store',
      properties: MEMBER_PROPERTIES,
      zone: async (request) => (await storeOf(sql.reads, request)).timeZone,
      handle: async (request) => {
        const key = storeOfAddress(request);
        await storeOf(sql.reads, request);
        const [rows, total] = await Promise.all([
          listMembers(sql, key, request.listing),
          countMembers(sql, key, request.listing),
        ]);
        const items = rows.map((row) => memberDocument(row, { ...request, baseUrl }));
        const { principal, now } = request;
        return {
          path: addressOfMembers(key.storeId, baseUrl),
          items,
          total,
          links: linksOf(principal, key.storeId, baseUrl),
          ...(managesStore(principal, key.storeId) && {
            beside: async () => ({ summary: await inviting.pending({ ...key, now }) }),
          }),
        };
      },
    }),
    add: createAdd(runtime, deps),
    read: guarded({
      summary: 'One member of the store',
      scopes: ['store_read'],
      handle: async (request) => {
        const member = await findMember(sql, memberKeyOf(request));
        if (member === undefined) throw notFound('member');
        return { status: 200, document: memberDocument(member, { ...request, baseUrl }) };
      },
    }),
    patch: accepting({
      title: 'Change the role',
      isConditional: true,
      isSensitive: true,
      summary: 'Makes a member an owner, or an owner a member; for signed-in owners and the scope platform',
      access: 'owner',
      input: changedMember,
      handle: async (request) => {
        const { role } = request.body;
        const by = byOf(effects.changelog, request);
        const member = await transaction(sql, async (tx) => {
          const current = await lockedMember(tx, request, { remainsOwner: role === 'owner' });
          await updateRole(tx, { ...memberKeyOf(request), role });
          await recordMember(tx, memberKeyOf(request), { before: current.role, after: role }, by);
          return { ...current, role };
        });
        const next = addressOfMembers(member.storeId, baseUrl);
        return { status: 200, document: memberDocument(member, { ...request, baseUrl }), next };
      },
    }),
    remove: createRemove(runtime, effects),
  };
}

/** What is checked before an invitation is made. */
type PreparedInvitation = { email: string | null; storeName: string };

/** Invites people in the operation that adds members. */
export type Inviting = {
  prepare: (request: ApiRequest<{ email?: string; role?: Role }>) => Promise<PreparedInvitation>;
  make: (
    tx: Tx,
    request: ApiRequest<{ email?: string; role?: Role }>,
    prepared: PreparedInvitation,
  ) => Promise<CreatedResult & { made: () => Promise<void> }>;
  /** Returns all pending invitations, with the action that makes one, for a page of the store that its owners read. */
  pending: (store: { storeId: number; now: Date }) => Promise<Document>;
};

type MemberInput = { user?: number; email?: string };

const ONE_NAME = 'Send one of email, user and identity';
const UNKNOWN_USER = 'user must be the id of a user whose e-mail address is verified';

/** Returns the 400 for a user that does not exist. */
function unknownUser(): Problem {
  return invalid(invalidValue('user', UNKNOWN_USER));
}

/** Throws a 400 unless the body names the person in one way. */
function requireOneName({ user, email, identity }: NewMember): void {
  const named = [user, email, identity].filter((one) => one !== undefined).length;
  if (named === 1) return;
  throw invalid({ code: named === 0 ? 'required' : 'invalid_value', message: ONE_NAME, field: 'email' });
}

/**
 * Returns the id of the user in the body; undefined if no account has verified the e-mail address: its person has to accept an invitation.
 * Throws a 400 that says what to change.
 */
async function findNewMember(sql: Sql, { user, email }: MemberInput): Promise<number | undefined> {
  const userId = await findVerifiedUser(sql, { id: user ?? null, email: readEmail(email ?? '') ?? null });
  if (userId === undefined && user !== undefined) throw unknownUser();
  return userId;
}
