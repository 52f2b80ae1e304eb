/** Renders the pages of an invitation. Only those for a valid link name the store. */
import {
  accountNav,
  alertOf,
  emailField,
  newPasswordField,
  postForm,
  usernameField,
  type FormFault,
} from '#identity/accounts/page-kit.ts';
import {
  countReceived,
  deleteInvitation,
  findReceived,
  listReceived,
  type OfferedInvitation,
} from '#stores/invitations/invitations-sql.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { originOf, recordAuditEntry } from '#identity/accounts/audit.ts';
import { acceptInvitation, NotAccepted, type Refusal } from '#stores/invitations/invitation-operations.ts';
import { addressOfReceived, RECEIVED_PROPERTIES, receivedDocument } from '#stores/invitations/invitation.ts';
import { recordInvitation, type MemberEffects } from '#stores/audited-changes.ts';
import { addressOfStore } from '#stores/store-document.ts';
import { inPerson } from '#changelog/changelog.ts';
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import { listing } from '#http/list-operation.ts';
import { guarded, type ApiRequest } from '#http/operation.ts';
import { idIn, type RawRequest } from '#http/route.ts';
import { conflict, notFound } from '#core/problem.ts';
import type { Runtime } from '#runtime/runtime.ts';

/** `root` is the path prefix of the pages, without a trailing slash; `token` is the one in the link. */
type Offer = { root: string; token: string; invitation: OfferedInvitation };

const MAY: Readonly<Record<OfferedInvitation['role'], string>> = {
  owner: 'As an owner you can see and change everything in the store, including its members and keys.',
  member: 'As a member you can see and change everything in the store, except its members and keys.',
};

/** Returns the path of the sign-in page that returns to the invitation. */
export function signInPath({ root, token }: Pick<Offer, 'root' | 'token'>): string {
  return `${root}/sign-in?${new URLSearchParams({ return_to: `${root}/invitations/${token}` }).toString()}`;
}

const intro = ({ invitation: { role, storeName } }: Offer): Markup =>
  html`<h1>Join ${storeName}</h1>
    <p>You are invited to this store. ${MAY[role]}</p>`;

/** Renders the page for a signed-in person. */
export function acceptPage(offer: Offer & { email: string; nonce: string }): string {
  const { root, token, email, nonce } = offer;
  return shell({
    title: 'Invitation',
    nav: accountNav(root),
    main: html`<div class="card">
      ${intro(offer)}
      ${postForm({
        action: `${root}/invitations/${token}`,
        hidden: { nonce },
        fields: html`<p>You are signed in as <strong>${email}</strong>.</p>`,
        submit: 'Join the store',
        cancel: { href: signInPath(offer), label: 'Use another account' },
      })}
    </div>`,
  });
}

/**
 * Renders the page for a visitor without a session: sign in, or create an account. `email` is what was entered or verified. `ask`: with
 * `email` the person gets a mail, whose link has the token `proof` and asks for the password.
 */
export function newPersonPage(
  offer: Offer & {
    email: string;
    ask: 'email' | 'password' | 'both';
    proof?: string | undefined;
    fault: FormFault | undefined;
  },
): string {
  const { root, token, invitation, email, ask, proof, fault } = offer;
  const isFixed = ask === 'password' || invitation.email !== null;
  const address = isFixed
    ? html`<p>Your account gets the e-mail address <strong>${email}</strong>.</p>
        ${usernameField(email)}`
    : emailField(email, fault);
  const rest =
    ask === 'email'
      ? html`<p>We will mail you a link. Choose your password there.</p>`
      : newPasswordField('Password', fault);
  return shell({
    title: 'Invitation',
    main: html`<div class="card">
        ${intro(offer)}
        <p>Do you have an account here already?</p>
        <p><a class="button" href="${signInPath(offer)}">Sign in and join</a></p>
      </div>
      <div class="card">
        <h2>New here?</h2>
        ${alertOf(fault)}
        ${postForm({
          action: `${root}/invitations/${token}`,
          hidden: proof === undefined ? {} : { token: proof },
          fields: html`${address} ${rest}`,
          submit: ask === 'email' ? 'Send the link' : 'Create an account and join',
          style: 'quiet',
        })}
      </div>`,
  });
}

const REFUSED: Readonly<Record<Refusal, string>> = {
  ended: 'The invitation was accepted, revoked or has expired',
  'other address': 'The invitation is for another e-mail address',
  'already member': 'You are a member of the store already',
  'store full': 'The store has no place for another member: ask an owner to remove one first',
};

/** Returns the user of the address, who is the caller. */
const personOf = (request: Pick<ApiRequest, 'params'>): number => idIn(request, 'user_id', 'user');

/** Returns the invitation of the address. Throws a 404 unless it is for the caller, whose e-mail address is verified. */
async function receivedBy(sql: Sql, request: ApiRequest<undefined>) {
  const id = idIn(request, 'invitation_id', 'invitation');
  const found = await findReceived(sql, { userId: personOf(request), now: request.now, id });
  if (found === undefined) throw notFound('invitation');
  return found;
}

/** Accepts an invitation with its audit entry, and returns the id of the user. Throws `NotAccepted`. */
export async function acceptIn(
  tx: Tx,
  { stores: { membersPerStore } }: Runtime['config'],
  effects: MemberEffects,
  {
    request,
    invitation,
    userOf,
  }: {
    request: Pick<RawRequest, 'address' | 'headers' | 'now'>;
    invitation: OfferedInvitation;
    userOf: (tx: Tx) => Promise<{ id: number; email: string }>;
  },
): Promise<number> {
  const { now } = request;
  const { userId } = await acceptInvitation(tx, invitation, effects, { userOf, membersPerStore, now });
  const entry = { userId, storeId: invitation.storeId, origin: originOf(request), now };
  await recordAuditEntry(tx, { ...entry, action: 'invitation_accepted' });
  return userId;
}

/** Creates the operations of {base_url}/users/<id>/invitations, where a signed-in person accepts and declines invitations. */
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
    decline: guarded({
      title: 'Decline the invitation',
      access: 'person',
      summary: 'Declines an invitation, which ends; for signed-in people',
      handle: async (request) => {
        const received = await receivedBy(sql, request);
        const userId = personOf(request);
        const by = { changelog: effects.changelog, actor: inPerson(userId), now: request.now };
        await transaction(sql, async (tx) => {
          const declined = await deleteInvitation(tx, received, request.now);
          if (declined === undefined) throw notFound('invitation');
          await recordInvitation(tx, received, { action: 'declined', role: declined.role }, by);
        });
        return { status: 204, next: addressOfReceived(userId, baseUrl), done: 'declined' };
      },
    }),
    accept: guarded({
      title: 'Join the store',
      access: 'person',
      summary: 'Accepts an invitation: the person becomes a member of the store; for signed-in people',
      handle: async (request) => {
        const invitation = await receivedBy(sql, request);
        const { email, storeId } = invitation;
        const userOf = async () => ({ id: personOf(request), email });
        try {
          await transaction(sql, (tx) => acceptIn(tx, config, effects, { request, invitation, userOf }));
        } catch (error) {
          if (!(error instanceof NotAccepted)) throw error;
          throw conflict('not_accepted', REFUSED[error.refusal]);
        }
        return { status: 204, next: `${addressOfStore(storeId, baseUrl)}/overview`, done: 'joined' };
      },
    }),
  };
}
