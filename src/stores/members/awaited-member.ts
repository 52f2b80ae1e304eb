/** A membership that waits for the first sign-in of its person with an OpenID provider: its properties and its Document. */
import { comparisonsOf, propertiesOf, type Fields } from '#http/field-table.ts';
import type { Document } from '#hypermedia/document.ts';
import { invalid } from '#core/problem.ts';
import { isLonger } from '#core/text.ts';
import { addressOfStore } from '../store-document.ts';
import type { AwaitedRow } from './awaited-members-sql.ts';
import { addressOfMembers, memberFields } from './member.ts';

/** An account at an OpenID provider. */
export type Identity = { issuer: string; subject: string };

export const awaitedFields = {
  issuer: { kind: 'text' },
  subject: { kind: 'text' },
  role: { kind: 'enumeration', choices: memberFields.role.choices },
  date_created: { kind: 'date' },
} as const satisfies Fields;

export const AWAITED_PROPERTIES = comparisonsOf(awaitedFields);

const describe = propertiesOf(awaitedFields);

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
    properties: describe(row, row.timeZone, {}),
  };
}

/** OpenID Connect Core §2. */
const SUBJECT_LENGTH_MAX = 255;

const fault = (message: string) => invalid({ code: 'invalid_value', message, field: 'identity' });

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
