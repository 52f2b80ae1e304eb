/**
 * The people of a store over the API: {base_url}/stores/<id>/members. Whoever reaches the store sees them; who they are say the
 * platform and, in person, the owners, of whom one always stays.
 */
import { actorOf, type Changelog } from '#changelog/changelog.ts';
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import { creating } from '#http/creating.ts';
import { listing } from '#http/listing.ts';
import { accepting, guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import { parseId } from '#core/ids.ts';
import { notFound, Problem } from '#core/problem.ts';
import { storeOfAddress } from '#core/principal.ts';
import { storeOf } from '../access.ts';
import { addressOfStore } from '../document.ts';
import { letGo, recordMember, type By, type StopWebhooks } from '../audit.ts';
import { addressOfMembers, MEMBER_PROPERTIES, memberDocument } from './document.ts';
import {
  countMembers,
  findMember,
  hasOtherOwner,
  holdStore,
  holdUser,
  insertMember,
  listMembers,
  lockMember,
  updateRole,
  type MemberRow,
} from './members-sql.ts';
import { changedMember, newMember } from './schema.ts';
import { unknown, whomOf, type AddressThrottle } from './whom.ts';

type Deps = {
  sql: Sql;
  changelog: Changelog;
  stopWebhooks: StopWebhooks;
  throttle: AddressThrottle;
  baseUrl: string;
  membersPerStore: number;
};
type Asked = Pick<ApiRequest, 'params' | 'principal'>;

const memberKeyOf = (request: Asked) => {
  const userId = parseId(request.params['user_id'] ?? '');
  if (userId === undefined) throw notFound('member');
  return { ...storeOfAddress(request), userId };
};

const byOf = ({ changelog }: Deps, { principal, now }: Pick<ApiRequest, 'principal' | 'now'>): By => ({
  changelog,
  actor: actorOf(principal),
  now,
});

/** The member of the address, locked; and the one that the caller means. */
const lockedMember = async (
  tx: Tx,
  request: Asked & Pick<ApiRequest, 'unmodified'>,
  { staysOwner }: { staysOwner: boolean },
): Promise<MemberRow> => {
  const key = memberKeyOf(request);
  // Before the member, in the order of all owners. The platform gives a store to others by taking it from all first.
  const mayLeave = staysOwner || request.principal.scope === 'platform' || (await hasOtherOwner(tx, key));
  const member = await lockMember(tx, key);
  if (member === undefined) throw notFound('member');
  request.unmodified(member.role);
  if (member.role === 'owner' && !mayLeave) throw new Problem(409, { code: 'last_owner', message: LAST });
  return member;
};

const LAST = 'This is the only owner of the store: make somebody else an owner first';

const ALREADY = 'This person is a member of the store already: change what they are at their own address';

const full = ({ membersPerStore }: Deps): Problem => {
  const message = `A store has at most ${membersPerStore} members; remove one first`;
  return new Problem(409, { code: 'limit_reached', message });
};

/** A second time is refused, so that nobody takes an owner down by adding them again. */
const addition = (deps: Deps): Operation =>
  creating({
    title: 'Add a member',
    summary: 'Makes a person a member of the store; for its owners in person and the scope platform',
    access: 'owner',
    input: newMember,
    admit: async (request) => void (await storeOf(deps.sql, request)),
    prepare: (request) => whomOf(deps, request),
    make: async (tx, request, userId) => {
      const { role } = request.body;
      const store = storeOfAddress(request);
      const key = { ...store, userId };
      if (!(await holdStore(tx, store))) throw notFound('store');
      if (!(await holdUser(tx, userId))) throw unknown(request.body);
      if (!(await insertMember(tx, { ...key, role, now: request.now })))
        throw new Problem(409, {
          code: 'already_member',
          message: ALREADY,
          field: request.body.email === undefined ? 'user' : 'email',
        });
      if ((await countMembers(tx, store)) > deps.membersPerStore) throw full(deps);
      const member = await findMember(tx, key);
      if (member === undefined) throw new Error('A member who was just made is not there');
      await recordMember(tx, key, { before: null, after: role }, byOf(deps, request));
      const location = `${addressOfMembers(key.storeId, deps.baseUrl)}/${userId}`;
      return { document: memberDocument(member, { ...request, baseUrl: deps.baseUrl }), location };
    },
  });

const removal = (deps: Deps): Operation =>
  guarded({
    title: 'Remove the member',
    isConditional: true,
    summary:
      'Takes a person out of the store: they no longer reach it, and the apps that they let into it stop at once; for its owners in person and the scope platform',
    access: 'owner',
    handle: async (request) => {
      const key = memberKeyOf(request);
      await transaction(deps.sql, async (tx) => {
        await lockedMember(tx, request, { staysOwner: false });
        await letGo(tx, key, { ...byOf(deps, request), stopWebhooks: deps.stopWebhooks });
      });
      return { status: 204, next: addressOfMembers(key.storeId, deps.baseUrl) };
    },
  });

export const createMemberOperations = (deps: Deps): Record<'list' | 'add' | 'read' | 'patch' | 'remove', Operation> => {
  const { sql, baseUrl } = deps;
  return {
    list: listing({
      summary: 'The members of the store, a page at a time',
      rel: 'members',
      title: 'The members of this store',
      properties: MEMBER_PROPERTIES,
      handle: async (request) => {
        const key = storeOfAddress(request);
        await storeOf(sql, request);
        const [rows, total] = await Promise.all([
          listMembers(sql, key, request.listing),
          countMembers(sql, key, request.listing),
        ]);
        const items = rows.map((row) => memberDocument(row, { ...request, baseUrl }));
        const links = [
          { rel: 'store', href: addressOfStore(key.storeId, baseUrl), title: 'The store', crumb: 'Store' },
        ];
        return { path: addressOfMembers(key.storeId, baseUrl), items, total, links };
      },
    }),
    add: addition(deps),
    read: guarded({
      summary: 'One member of the store',
      handle: async (request) => {
        const member = await findMember(sql, memberKeyOf(request));
        if (member === undefined) throw notFound('member');
        return { status: 200, document: memberDocument(member, { ...request, baseUrl }) };
      },
    }),
    patch: accepting({
      title: 'Change what they are',
      isConditional: true,
      summary: 'Makes an owner of a member, or a member of an owner; for its owners in person and the scope platform',
      access: 'owner',
      input: changedMember,
      handle: async (request) => {
        const { role } = request.body;
        const member = await transaction(sql, async (tx) => {
          const present = await lockedMember(tx, request, { staysOwner: role === 'owner' });
          await updateRole(tx, { ...memberKeyOf(request), role });
          await recordMember(tx, memberKeyOf(request), { before: present.role, after: role }, byOf(deps, request));
          return { ...present, role };
        });
        return { status: 200, document: memberDocument(member, { ...request, baseUrl }) };
      },
    }),
    remove: removal(deps),
  };
};
