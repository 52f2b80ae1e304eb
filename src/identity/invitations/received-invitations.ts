/** The invitations to a signed-in person: {base_url}/users/<id>/invitations, where they accept and decline. */
import { originOf, recordAuditEntry } from '#identity/accounts/audit/audit.ts';
import { acceptInvitation, NotAccepted, type Refusal } from '#stores/invitations/accept.ts';
import { addressOfReceived, RECEIVED_PROPERTIES, receivedDocument } from '#stores/invitations/received-invitation.ts';
import { countReceived, deleteInvitation, findReceived, listReceived } from '#stores/invitations/invitations-sql.ts';
import { recordInvitation, type MemberEffects } from '#stores/audited-changes.ts';
import { addressOfStore } from '#stores/store-document.ts';
import { inPerson } from '#changelog/changelog.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { listing } from '#http/list-operation.ts';
import { guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import { parseId } from '#core/ids.ts';
import { notFound, Problem } from '#core/problem.ts';
import type { Runtime } from '#runtime/runtime.ts';

const REFUSED: Readonly<Record<Refusal, string>> = {
  ended: 'The invitation was accepted, revoked or has expired',
  'other address': 'The invitation is for another e-mail address',
  'already member': 'You are a member of the store already',
  'store full': 'The store has no place for another member: ask an owner to remove one first',
};

/** Returns the user of the address, who is the caller. */
function personOf({ params }: Pick<ApiRequest, 'params'>): number {
  const userId = parseId(params['user_id'] ?? '');
  if (userId === undefined) throw notFound('user');
  return userId;
}

/** Returns the invitation of the address. Throws a 404 unless it is for the caller, whose e-mail address is verified. */
async function receivedBy(sql: Sql, request: ApiRequest<undefined>) {
  const id = parseId(request.params['invitation_id'] ?? '');
  const of = { userId: personOf(request), now: request.now };
  const found = id === undefined ? undefined : await findReceived(sql, { ...of, id });
  if (found === undefined) throw notFound('invitation');
  return found;
}

const createAccept = ({ sql, config: { baseUrl, stores } }: Runtime, effects: MemberEffects): Operation =>
  guarded({
    title: 'Join the store',
    access: 'person',
    summary: 'Accepts an invitation: the person becomes a member of the store; for signed-in people',
    handle: async (request) => {
      const received = await receivedBy(sql, request);
      const { email, storeId } = received;
      const userId = personOf(request);
      const { now } = request;
      try {
        await transaction(sql, async (tx) => {
          const by = { userOf: async () => ({ id: userId, email }), membersPerStore: stores.membersPerStore, now };
          await acceptInvitation(tx, received, effects, by);
          const entry = { userId, storeId, origin: originOf(request), now };
          await recordAuditEntry(tx, { ...entry, action: 'invitation_accepted' });
        });
      } catch (error) {
        if (!(error instanceof NotAccepted)) throw error;
        throw new Problem(409, { code: 'not_accepted', message: REFUSED[error.refusal] });
      }
      return { status: 204, next: `${addressOfStore(storeId, baseUrl)}/overview`, done: 'joined' };
    },
  });

const createDecline = ({ sql, config: { baseUrl } }: Runtime, { changelog }: MemberEffects): Operation =>
  guarded({
    title: 'Decline the invitation',
    access: 'person',
    summary: 'Declines an invitation, which ends; for signed-in people',
    handle: async (request) => {
      const received = await receivedBy(sql, request);
      const userId = personOf(request);
      await transaction(sql, async (tx) => {
        const declined = await deleteInvitation(tx, received, request.now);
        if (declined === undefined) throw notFound('invitation');
        const by = { changelog, actor: inPerson(userId), now: request.now };
        await recordInvitation(tx, received, { action: 'declined', role: declined.role }, by);
      });
      return { status: 204, next: addressOfReceived(userId, baseUrl), done: 'declined' };
    },
  });

export function createReceivedInvitations(runtime: Runtime, effects: MemberEffects) {
  const { sql, config } = runtime;
  const { baseUrl } = config;
  return {
    list: listing({
      summary: 'The invitations to a person, in pages; for signed-in people',
      access: 'person',
      rel: 'invitations',
      title: 'Your invitations',
      properties: RECEIVED_PROPERTIES,
      handle: async (request) => {
        const of = { userId: personOf(request), now: request.now };
        const [rows, total] = await Promise.all([
          listReceived(sql, of, request.listing),
          countReceived(sql, of, request.listing),
        ]);
        const items = rows.map((row) => receivedDocument(row, { ...of, baseUrl }));
        const links = [{ rel: 'user', href: `${baseUrl}/users/${of.userId}`, title: 'Your account', crumb: 'User' }];
        return { path: addressOfReceived(of.userId, baseUrl), items, total, links };
      },
    }),
    read: guarded({
      summary: 'An invitation to a person; for signed-in people',
      access: 'person',
      handle: async (request) => {
        const document = receivedDocument(await receivedBy(sql, request), { userId: personOf(request), baseUrl });
        return { status: 200, document };
      },
    }),
    decline: createDecline(runtime, effects),
    accept: createAccept(runtime, effects),
  };
}
