/** An invitation to a store: its properties, the schema of a body, the Document, and the tokens of its links. */
import { EMAIL_LENGTH_MAX } from '#core/email.ts';
import { comparisonsOf, propertiesOf, schemasOf, type Fields, type PartOf } from '#http/field-table.ts';
import { formatDate } from '#hypermedia/date.ts';
import { type Document, viewType } from '#hypermedia/document.ts';
import { addressOfStore } from '../store-document.ts';
import { addressOfMembers, memberFields, type Role } from '../members/member.ts';
import type { InvitationRow, ReceivedInvitation } from './invitations-sql.ts';
import { createHash, randomBytes } from 'node:crypto';

/** The role of an invitation that names none: the one with fewer rights. */
export const DEFAULT_ROLE = 'member' satisfies Role;

export const invitationFields = {
  id: { kind: 'number' },
  /** Null if any account may accept. */
  email: {
    kind: 'text',
    isNullable: true,
    input: {
      maxLength: EMAIL_LENGTH_MAX,
      description:
        'Only an account with this e-mail address can accept. If omitted, the first person with the link can.',
    },
  },
  role: {
    kind: 'enumeration',
    choices: memberFields.role.choices,
    initial: DEFAULT_ROLE,
    input: { description: memberFields.role.input.description },
  },
  // An accepted, declined or revoked invitation is deleted.
  state: { kind: 'enumeration', choices: ['pending'], from: 'code', comparison: 'none' },
  is_mailed: { kind: 'boolean', from: 'sql' },
  link: { kind: 'url', isNullable: true, from: 'code', comparison: 'none' },
  /** The owner who made it; null for the platform. */
  created_by: { kind: 'number', isNullable: true },
  date_created: { kind: 'date' },
  date_expires: { kind: 'date' },
} as const satisfies Fields;

export const INVITATION_PROPERTIES = comparisonsOf(invitationFields);
export const newInvitation = schemasOf(invitationFields, {}).whole;
export type NewInvitation = PartOf<typeof invitationFields>;

const describe = propertiesOf(invitationFields);

export function addressOfInvitations(storeId: number, baseUrl: string): string {
  return `${addressOfStore(storeId, baseUrl)}/invitations`;
}

export type InvitationView = Pick<InvitationRow, 'email' | 'role' | 'isMailed'> & {
  name: string;
  address: string;
  link: string | null;
  expires: string;
  /** The address of the members of the store. */
  members: string;
};

export const invitationView = viewType<InvitationView>('invitation');

/** Returns the Document of an invitation. `link` is not null only in the response that creates the invitation. */
export function invitationDocument(
  invitation: InvitationRow,
  { baseUrl, link }: { baseUrl: string; link: string | null },
): Document {
  const { id, storeId, email, role, isMailed, dateCreated, dateExpires, timeZone } = invitation;
  const invitations = addressOfInvitations(storeId, baseUrl);
  const members = addressOfMembers(storeId, baseUrl);
  const name = email ?? 'Anyone with the link';
  const address = `${invitations}/${id}`;
  const expires = formatDate(dateExpires, timeZone);
  return {
    name: 'invitation',
    title: name,
    // An invitation never changes.
    version: dateCreated.getTime(),
    links: [
      { rel: 'self', href: address, title: 'This invitation' },
      { rel: 'store', href: addressOfStore(storeId, baseUrl), title: 'The store of this invitation', crumb: 'Store' },
      { rel: 'members', href: members, title: 'The members of the store', crumb: 'Members' },
      { rel: 'invitations', href: invitations, title: 'All invitations to the store', crumb: 'Invitations' },
    ],
    embedded: [],
    properties: describe(invitation, timeZone, { state: 'pending', link }),
    ...invitationView.attach({ name, address, email, role, isMailed, link, expires, members }),
  };
}

/** The prefix lets a secret scanner, or a reader of a log, identify a leaked secret. */
const PREFIX = 'hal_in_';
const TOKEN_BYTES = 32;

const hash = (token: string): Buffer => createHash('sha256').update(token).digest();

export function newToken(): { token: string; hash: Buffer } {
  const token = PREFIX + randomBytes(TOKEN_BYTES).toString('base64url');
  return { token, hash: hash(token) };
}

/** Returns the hash by which a token is looked up; undefined if the text cannot be a token. */
export function hashOfToken(token: string): Buffer | undefined {
  const isToken = token.startsWith(PREFIX) && /^[A-Za-z0-9_-]{43}$/.test(token.slice(PREFIX.length));
  return isToken ? hash(token) : undefined;
}

/** The properties of an invitation as its person reads it. */
export const receivedFields = {
  id: { kind: 'number' },
  store_id: { kind: 'number' },
  store_name: { kind: 'text', from: 'sql' },
  role: { kind: 'enumeration', choices: memberFields.role.choices },
  date_created: { kind: 'date' },
  date_expires: { kind: 'date' },
} as const satisfies Fields;

export const RECEIVED_PROPERTIES = comparisonsOf(receivedFields);
const describeReceived = propertiesOf(receivedFields);

export function addressOfReceived(userId: number, baseUrl: string): string {
  return `${baseUrl}/users/${userId}/invitations`;
}

/** Returns the Document of an invitation for its person, who has no access to the store yet. */
export function receivedDocument(
  invitation: ReceivedInvitation,
  { userId, baseUrl }: { userId: number; baseUrl: string },
): Document {
  const { id, storeName, dateCreated } = invitation;
  const list = addressOfReceived(userId, baseUrl);
  const self = `${list}/${id}`;
  return {
    name: 'received_invitation',
    title: storeName,
    // An invitation never changes.
    version: dateCreated.getTime(),
    links: [
      { rel: 'self', href: self, title: 'This invitation' },
      { rel: 'invitations', href: list, title: 'Your invitations', crumb: 'Invitations' },
      { rel: 'user', href: `${baseUrl}/users/${userId}`, title: 'Your account' },
      { rel: 'accept', href: `${self}/accept`, title: 'Join the store' },
    ],
    embedded: [],
    properties: describeReceived(invitation, 'UTC', {}),
  };
}
