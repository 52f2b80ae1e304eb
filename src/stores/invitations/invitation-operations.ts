/**
 * API operations on the invitations to a store: {base_url}/stores/<id>/invitations. Only the platform and signed-in owners read and
 * change them: an app that could invite could give others access to the store.
 */
import { type Tx, transaction } from '#db/pool.ts';
import { fieldsOf } from '#http/actions.ts';
import { creating } from '#http/idempotency.ts';
import { listing } from '#http/list-operation.ts';
import { guarded, type ApiRequest, type AddressedRequest } from '#http/operation.ts';
import type { Action } from '#hypermedia/document.ts';
import { collection } from '#hypermedia/paging.ts';
import { type Changelog, inPerson } from '#changelog/changelog.ts';
import { readEmail } from '#core/email.ts';
import { idOf, parseId, shardOf } from '#core/ids.ts';
import { conflict, invalidValue, invalid, notFound, Problem, type Fault } from '#core/problem.ts';
import { isInPerson, requireOwner, storeOfAddress } from '#core/principal.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { storeOf } from '../store.ts';
import { byOf, recordInvitation, recordMember, type MemberEffects } from '../audited-changes.ts';
import { addressOfStore } from '../store-document.ts';
import { addressOfMembers } from '../members/member.ts';
import { lockMembersOf, countMembers, insertMember, lockUserRow } from '../members/members-sql.ts';
import type { Inviting } from '../members/member-operations.ts';
import { nextNumber } from '../stores-sql.ts';
import {
  addressOfInvitations,
  INVITATION_PROPERTIES,
  invitationDocument,
  DEFAULT_ROLE,
  newInvitation,
  type NewInvitation,
  newToken,
} from './invitation.ts';
import {
  countInvitations,
  deleteInvitation,
  findInvitation,
  insertInvitation,
  isMemberAddress,
  listInvitations,
  lockOwner,
  type OfferedInvitation,
} from './invitations-sql.ts';

/** What the mail of an invitation says. */
type InvitationMail = { to: string; storeName: string; token: string; expires: Date };

/** Mails of invitations. `admit` throws a 429 after too many mails to the address or by the person; `send` returns at once. */
export type InvitationMails = {
  admit: (to: string, request: Pick<ApiRequest, 'principal' | 'now'>) => Promise<void>;
  send: (mail: InvitationMail) => void;
};

/** `mails` is undefined if mail is not configured. */
type Deps = { changelog: Changelog; mails: InvitationMails | undefined };

const LIST = { rel: 'invitations', title: 'Invitations to this store' } as const;
const CREATE = { title: 'Invite a person' } as const;

const HOUR_MS = 3_600_000;

function emailFaults({ email }: Partial<NewInvitation>): Fault[] {
  if (email === undefined || readEmail(email) !== undefined) return [];
  return [invalidValue('email', 'email must be an address such as ada@example.com')];
}

const ALREADY_MEMBER = {
  code: 'already_member',
  message: 'This person is a member of the store already: change the role of the existing member',
  field: 'email',
};

/** Returns what the operation that adds members needs to invite instead. */
export function createInviting({ sql, config }: Runtime, { changelog, mails }: Deps): Inviting {
  const { baseUrl, authUrl, stores } = config;
  const { invitationsPerStore: limit } = stores;
  return {
    /** Validates the invitation, and counts its mail. */
    prepare: async (request) => {
      const { body } = request;
      const faults = emailFaults(body);
      if (faults.length > 0) throw invalid(...faults);
      const email = readEmail(body.email ?? '') ?? null;
      const { name } = await storeOf(sql.reads, request);
      if (email !== null) {
        if (await isMemberAddress(sql, storeOfAddress(request), email)) throw new Problem(409, ALREADY_MEMBER);
        await mails?.admit(email, request);
      }
      return { email, storeName: name };
    },

    /** Inserts the invitation. The link is only in this response; of both tokens only the hashes are stored. */
    make: async (tx, request, { email, storeName }) => {
      const { principal, now, body } = request;
      const store = storeOfAddress(request);
      if (!(await lockMembersOf(tx, store))) throw notFound('store');
      const createdBy = isInPerson(principal) ? principal.userId : null;
      // The membership may have changed since the request was admitted.
      if (createdBy !== null && !(await lockOwner(tx, store, createdBy)))
        requireOwner({ ...principal, owned: [] }, undefined);
      const linked = newToken();
      const mailed = email === null || mails === undefined ? undefined : newToken();
      const id = idOf(await nextNumber(tx), store.shard);
      const { role = DEFAULT_ROLE } = body;
      const expires = new Date(now.getTime() + stores.invitationLifetimeHours * HOUR_MS);
      const hashes = { hash: linked.hash, mailedHash: mailed?.hash ?? null };
      await insertInvitation(tx, { ...store, ...hashes, id, email, role, createdBy, now, expires });
      if ((await countInvitations(tx, { ...store, now })) > limit)
        throw conflict('limit_reached', `A store has at most ${limit} pending invitations; revoke one first`);
      await recordInvitation(tx, { ...store, id }, { action: 'created', role }, byOf(changelog, request));
      const row = await findInvitation(tx, { ...store, id }, now);
      if (row === undefined) throw new Error('An invitation that was just made does not exist');
      return {
        document: invitationDocument(row, { baseUrl, link: `${authUrl}/invitations/${linked.token}` }),
        location: `${addressOfInvitations(store.storeId, baseUrl)}/${id}`,
        isSecret: true,
        made: async () => {
          if (email !== null && mailed !== undefined)
            mails?.send({ to: email, storeName, token: mailed.token, expires });
        },
      };
    },

    pending: async ({ storeId, now }) => {
      const page = { filters: [], order: [], offset: 0, limit };
      const rows = await listInvitations(sql, { shard: shardOf(storeId), storeId, now }, page);
      const items = rows.map((row) => invitationDocument(row, { baseUrl, link: null }));
      const path = addressOfInvitations(storeId, baseUrl);
      const listed = { path, query: new URLSearchParams(), page, total: rows.length, items };
      const create: Action = { name: 'create', ...CREATE, method: 'POST', href: path, fields: fieldsOf(newInvitation) };
      return { ...collection({ ...LIST, name: LIST.rel, ...listed }), actions: [create] };
    },
  };
}

function keyOf(request: AddressedRequest) {
  const id = parseId(request.params['invitation_id'] ?? '');
  if (id === undefined) throw notFound('invitation');
  return { ...storeOfAddress(request), id };
}

export function createInvitationOperations(
  runtime: Runtime,
  { changelog, inviting }: { changelog: Changelog; inviting: Inviting },
) {
  const { sql, config } = runtime;
  const { baseUrl } = config;
  return {
    list: listing({
      summary: 'The pending invitations to the store, in pages; for signed-in owners and the scope platform',
      access: 'owner',
      ...LIST,
      properties: INVITATION_PROPERTIES,
      zone: async (request) => (await storeOf(sql.reads, request)).timeZone,
      handle: async (request) => {
        const store = { ...storeOfAddress(request), now: request.now };
        await storeOf(sql.reads, request);
        const [rows, total] = await Promise.all([
          listInvitations(sql, store, request.listing),
          countInvitations(sql, store, request.listing),
        ]);
        const links = [
          { rel: 'store', href: addressOfStore(store.storeId, baseUrl), title: 'The store', crumb: 'Store' },
          { rel: 'members', href: addressOfMembers(store.storeId, baseUrl), title: 'The members', crumb: 'Members' },
        ];
        const items = rows.map((row) => invitationDocument(row, { baseUrl, link: null }));
        return { path: addressOfInvitations(store.storeId, baseUrl), items, total, links };
      },
    }),
    create: creating({
      ...CREATE,
      summary:
        'Invites a person to the store; only this response contains the link. If mail is configured and email is sent, a mail is sent, too; for signed-in owners and the scope platform',
      access: 'owner',
      isSensitive: true,
      input: newInvitation,
      admit: async (request) => void (await storeOf(sql.reads, request)),
      review: async ({ body }) => emailFaults(body),
      prepare: inviting.prepare,
      make: inviting.make,
    }),
    read: guarded({
      summary: 'A pending invitation, without its link; for signed-in owners and the scope platform',
      access: 'owner',
      handle: async (request) => {
        const row = await findInvitation(sql, keyOf(request), request.now);
        if (row === undefined) throw notFound('invitation');
        return { status: 200, document: invitationDocument(row, { baseUrl, link: null }) };
      },
    }),
    revoke: guarded({
      title: 'Revoke the invitation',
      isConditional: true,
      summary: 'Revokes an invitation: its links end at once; for signed-in owners and the scope platform',
      access: 'owner',
      handle: async (request) => {
        const key = keyOf(request);
        await transaction(sql, async (tx) => {
          const revoked = await deleteInvitation(tx, key, request.now);
          if (revoked === undefined) throw notFound('invitation');
          request.unmodified(revoked.dateCreated.getTime());
          const { role } = revoked;
          await recordInvitation(tx, key, { action: 'deleted', role }, byOf(changelog, request));
        });
        return { status: 204, next: addressOfMembers(key.storeId, baseUrl) };
      },
    }),
  };
}

/** Why an invitation is not accepted; the transaction must be rolled back. */
export type Refusal = 'ended' | 'other address' | 'already member' | 'store full';

export class NotAccepted extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(`The invitation was not accepted: ${refusal}`);
    this.name = 'NotAccepted';
    this.refusal = refusal;
  }
}

/** Returns whether a user with this e-mail address may accept. */
export function isFor({ email }: Pick<OfferedInvitation, 'email'>, address: string): boolean {
  return email === null || email === address;
}

/**
 * Makes a user a member, in the transaction of the caller. `userOf` returns the user, and may create it. Throws `NotAccepted`.
 * Concurrent calls for one store wait for its lock, so an invitation is used once, and the limit of members is exact.
 */
export async function acceptInvitation(
  tx: Tx,
  invitation: OfferedInvitation,
  { changelog, memberAccess }: MemberEffects,
  by: { userOf: (tx: Tx) => Promise<{ id: number; email: string }>; membersPerStore: number; now: Date },
): Promise<{ userId: number }> {
  const { shard, storeId } = invitation;
  const { now } = by;
  if (!(await lockMembersOf(tx, { shard, storeId }))) throw new NotAccepted('ended');
  const user = await by.userOf(tx);
  if (!(await lockUserRow(tx, user.id))) throw new NotAccepted('ended');
  if (!isFor(invitation, user.email)) throw new NotAccepted('other address');
  const accepted = await deleteInvitation(tx, invitation, now);
  if (accepted === undefined) throw new NotAccepted('ended');
  const { role } = accepted;
  const member = { shard, storeId, userId: user.id };
  if (!(await insertMember(tx, { ...member, role, now }))) throw new NotAccepted('already member');
  if ((await countMembers(tx, member)) > by.membersPerStore) throw new NotAccepted('store full');
  const actor = { changelog, actor: inPerson(user.id), now };
  await recordInvitation(tx, invitation, { action: 'accepted', role }, actor);
  await recordMember(tx, member, { before: null, after: role }, actor);
  await memberAccess.begin(tx, member, now);
  return { userId: user.id };
}
