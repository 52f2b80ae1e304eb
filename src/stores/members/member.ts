/** A member of a store: its properties, the schemas of bodies, and the Document. */
import { Type } from 'typebox';
import { EMAIL_LENGTH_MAX } from '#core/email.ts';
import { isInPerson, reachesUser, type Principal } from '#core/principal.ts';
import { comparisonsOf, propertiesOf, schemasOf, type Fields, type ValueOf, type WholeOf } from '#http/field-table.ts';
import { viewType, type Document } from '#hypermedia/document.ts';
import { formatDate } from '#hypermedia/date.ts';
import { invalidValue, invalid } from '#core/problem.ts';
import { isLonger } from '#core/text.ts';
import { addressOfStore } from '../store-document.ts';
import type { MemberRow, AwaitedRow } from './members-sql.ts';

export const memberFields = {
  user_id: { kind: 'number' },
  // Filters would reveal e-mail addresses to apps, which see none.
  email: { kind: 'text', isNullable: true, from: 'code', comparison: 'none' },
  is_email_verified: { kind: 'boolean', from: 'sql', comparison: 'none' },
  role: {
    kind: 'enumeration',
    choices: ['owner', 'member'],
    input: {
      isRequired: true,
      description: 'Owners see the keys of webhooks and manage members; members can do everything else.',
    },
  },
  date_created: { kind: 'date' },
} as const satisfies Fields;
export type Role = ValueOf<typeof memberFields.role>;

export const MEMBER_PROPERTIES = comparisonsOf(memberFields);
/** The body of a PATCH: the role is all that changes. */
export const changedMember = schemasOf(memberFields, {}).whole;

const newMemberFields = {
  email: {
    kind: 'text',
    input: {
      maxLength: EMAIL_LENGTH_MAX,
      description:
        'The e-mail address that the new member signs in with. Without an account that has verified it, the person is invited.',
    },
  },
  role: memberFields.role,
  user: {
    kind: 'number',
    input: {
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'The id of the user, instead of the e-mail address.',
    },
  },
  identity: {
    kind: 'json',
    initial: {},
    input: {
      description:
        'The account with which the new member signs in, instead of the e-mail address: the issuer of an OpenID provider of this server, and the subject there. Without a user who has linked it, the membership waits for the first sign-in with it.',
      isForPrograms: true,
    },
  },
} as const satisfies Fields;
export const newMember = schemasOf(newMemberFields, {}).whole;
export type NewMember = WholeOf<typeof newMemberFields>;

const describe = propertiesOf(memberFields);

export function addressOfMembers(storeId: number, baseUrl: string): string {
  return `${addressOfStore(storeId, baseUrl)}/members`;
}

export type MemberView = {
  name: string;
  role: Role;
  since: string;
  address: string;
  version: string;
  /** The member is the reader. */
  isReader: boolean;
};

export const memberView = viewType<MemberView>('member');

/** Returns the Document of a member. Users see each other's e-mail addresses; apps see none. */
export function memberDocument(
  member: MemberRow,
  { principal, baseUrl }: { principal: Principal; baseUrl: string },
): Document {
  const { storeId, userId, email, role } = member;
  const members = addressOfMembers(storeId, baseUrl);
  const visibleEmail = principal.scope === 'platform' || isInPerson(principal) ? email : null;
  const name = visibleEmail ?? `User ${userId}`;
  const address = `${members}/${userId}`;
  const isReader = reachesUser(principal, userId);
  const since = formatDate(member.dateCreated, member.timeZone);
  return {
    name: 'member',
    title: name,
    version: role,
    links: [
      { rel: 'self', href: address, title: 'This member' },
      { rel: 'store', href: addressOfStore(storeId, baseUrl), title: 'The store of this member', crumb: 'Store' },
      { rel: 'members', href: members, title: 'All members of the store', crumb: 'Members' },
      ...(isReader ? [{ rel: 'user', href: `${baseUrl}/users/${userId}`, title: 'The person' }] : []),
    ],
    embedded: [],
    properties: describe(member, member.timeZone, { email: visibleEmail }),
    ...memberView.attach({ name, role, since, address, version: role, isReader }),
  };
}

/** An account at an OpenID provider. */
export type Identity = { issuer: string; subject: string };

export const awaitedFields = {
  issuer: { kind: 'text' },
  subject: { kind: 'text' },
  role: { kind: 'enumeration', choices: memberFields.role.choices },
  date_created: { kind: 'date' },
} as const satisfies Fields;

export const AWAITED_PROPERTIES = comparisonsOf(awaitedFields);

const describeAwaited = propertiesOf(awaitedFields);

export function addressOfAwaited(storeId: number, baseUrl: string): string {
  return `${addressOfStore(storeId, baseUrl)}/awaited_members`;
}

/** It has no address of its own, because it ends with the first sign-in: the request that ends a membership names the identity. */
export function awaitedDocument(row: AwaitedRow, { baseUrl }: { baseUrl: string }): Document {
  return {
    name: 'awaited_member',
    title: `${row.subject} at ${row.issuer}`,
    links: [
      { rel: 'store', href: addressOfStore(row.storeId, baseUrl), title: 'The store', crumb: 'Store' },
      { rel: 'members', href: addressOfMembers(row.storeId, baseUrl), title: 'The members of the store' },
    ],
    embedded: [],
    properties: describeAwaited(row, row.timeZone, {}),
  };
}

/** OpenID Connect Core §2. */
const SUBJECT_LENGTH_MAX = 255;

const fault = (message: string) => invalid(invalidValue('identity', message));

/** Returns the identity of a request. Throws a 400 that says what to change. */
export function readIdentity(sent: Readonly<Record<string, unknown>>, issuers: readonly string[]): Identity {
  const { issuer, subject, ...others } = sent;
  const isSubject = typeof subject === 'string' && subject !== '' && !isLonger(subject, SUBJECT_LENGTH_MAX);
  if (typeof issuer !== 'string' || !isSubject || Object.keys(others).length > 0)
    throw fault(
      `identity must have an issuer and a subject of 1 to ${SUBJECT_LENGTH_MAX} characters, and nothing else`,
    );
  if (issuers.includes(issuer)) return { issuer, subject };
  throw fault(
    issuers.length === 0
      ? 'identity cannot be used: the operator has configured no OpenID provider (OPENID_PROVIDERS)'
      : `identity.issuer must be that of an OpenID provider of this server: ${issuers.join(', ')}`,
  );
}

export const newPortalLink = Type.Object(
  {
    user: Type.Integer({
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'The id of the member whom the link lets in.',
    }),
  },
  { additionalProperties: false },
);

/** `url` is the link itself, which no later response has. */
export function portalLinkDocument(
  { storeId, userId, timeZone }: Pick<MemberRow, 'storeId' | 'userId' | 'timeZone'>,
  { baseUrl, url, expires }: { baseUrl: string; url: string; expires: Date },
): Document {
  return {
    name: 'portal_link',
    title: 'A link to the pages of a store',
    links: [
      { rel: 'store', href: addressOfStore(storeId, baseUrl), title: 'The store' },
      { rel: 'member', href: `${addressOfMembers(storeId, baseUrl)}/${userId}`, title: 'The member' },
    ],
    embedded: [],
    properties: [
      { name: 'url', kind: 'secret', value: url },
      { name: 'user_id', kind: 'number', value: userId },
      { name: 'date_expires', kind: 'date', value: formatDate(expires, timeZone) },
    ],
  };
}
