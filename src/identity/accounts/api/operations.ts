/** The API operations on users: {base_url}/users. */
import { randomBytes } from 'node:crypto';
import type { Changelog } from '#changelog/changelog.ts';
import type { Sql } from '#db/pool.ts';
import { creating } from '#http/creating.ts';
import { listing } from '#http/listing.ts';
import { guarded, type Operation } from '#http/operation.ts';
import { readEmail } from '#core/email.ts';
import { parseId } from '#core/ids.ts';
import type { Filter } from '#core/listing.ts';
import { invalid, notFound, type Fault } from '#core/problem.ts';
import { reachesUser } from '#core/principal.ts';
import type { Mailer } from '#mail/mail.ts';
import { originOf } from '../audit/audit.ts';
import type { Passwords } from '../passwords.ts';
import type { Links } from '../password-reset.ts';
import { welcomeMail } from '../account-mails.ts';
import { findUser } from '../accounts-sql.ts';
import type { EraseUnverified } from '../unverified.ts';
import { addUser, emailFault, passwordFault, prepareUser } from '../users.ts';
import { addressOfUser, USER_PROPERTIES, userDocument } from './document.ts';
import { eraseUser, type EraseUserData } from './erase.ts';
import { countUsers, listUsers } from './users-sql.ts';
import { newUser } from './schema.ts';

type Deps = {
  sql: Sql;
  changelog: Changelog;
  passwords: Passwords;
  links: Links;
  mailer: Mailer | undefined;
  eraseUserData: EraseUserData;
  eraseUnverified: EraseUnverified;
  baseUrl: string;
  authUrl: string;
  /** Whether users may create sandbox stores. */
  allowsSandboxes: boolean;
};

/** Returns a random password for a user created without one, who chooses a password by the mailed link. */
const unknownPassword = (): string => randomBytes(32).toString('base64url');

/** Without mail, a user without a password could never sign in. */
const PASSWORD_REQUIRED: Fault = {
  code: 'required',
  message: 'password is required, as this service sends no mail by which they could choose one',
  field: 'password',
};

/** Returns the faults of a new user, except a taken address. The schema has already rejected missing members. */
async function faultsOf(user: { email?: string; password?: string }, sendsMail: boolean): Promise<Fault[]> {
  const { email, password } = user;
  const faults = [
    email === undefined ? undefined : emailFault(email),
    password === undefined ? undefined : await passwordFault({ email: email ?? '', password, hasSecondFactor: false }),
    password === undefined && !sendsMail ? PASSWORD_REQUIRED : undefined,
  ];
  return faults.filter((fault) => fault !== undefined);
}

const creation = ({ passwords, links, mailer, eraseUnverified, baseUrl, authUrl, allowsSandboxes }: Deps): Operation =>
  creating({
    title: 'Create a user',
    summary:
      'Creates a user; if mail is configured and no password is given, the user is mailed a link for choosing one',
    access: 'platform',
    input: newUser,
    review: ({ body }) => faultsOf(body, mailer !== undefined),
    prepare: async ({ body }) => {
      const faults = await faultsOf(body, mailer !== undefined);
      if (faults.length > 0) throw invalid(...faults);
      return prepareUser(passwords, { email: body.email, password: body.password ?? unknownPassword() });
    },
    make: async (tx, request, prepared) => {
      const by = { origin: originOf(request), client: request.principal.clientId, now: request.now };
      await eraseUnverified(tx, prepared.email, request);
      const { id } = await addUser(tx, prepared, by);
      const row = { id, email: prepared.email, isEmailVerified: true, dateCreated: request.now };
      const isInvited = request.body.password === undefined && mailer !== undefined;
      const link = isInvited ? await links.issueIn(tx, id, by) : undefined;
      return {
        document: userDocument(row, { ...request, baseUrl, allowsSandboxes }),
        location: addressOfUser(id, baseUrl),
        made: async () => {
          const { lifetimeMinutes } = links;
          if (link !== undefined) mailer?.send(welcomeMail({ to: row.email, link, lifetimeMinutes, authUrl }));
        },
      };
    },
  });

/** Returns the filter with the spelling in which addresses are stored. */
function withStoredSpelling(filter: Filter): Filter {
  const { property, operator, value } = filter;
  const isAddress = property === 'email' && (operator === 'is' || operator === 'not') && typeof value === 'string';
  return isAddress ? { ...filter, value: readEmail(value) ?? value } : filter;
}

export function createUserOperations(deps: Deps): Record<'list' | 'create' | 'read' | 'remove', Operation> {
  const { sql, baseUrl, allowsSandboxes } = deps;
  return {
    list: listing({
      summary: 'Lists all users; requires the scope platform',
      access: 'platform',
      rel: 'users',
      title: 'All users',
      properties: USER_PROPERTIES,
      handle: async (request) => {
        const found = { ...request.listing, filters: request.listing.filters.map(withStoredSpelling) };
        const [rows, total] = await Promise.all([listUsers(sql, found), countUsers(sql, found)]);
        const items = rows.map((row) => userDocument(row, { ...request, baseUrl, allowsSandboxes }));
        return { path: `${baseUrl}/users`, items, total };
      },
    }),
    create: creation(deps),
    read: guarded({
      summary: 'Returns a user',
      scopes: 'any',
      handle: async (request) => {
        const id = parseId(request.params['user_id'] ?? '');
        const user = id !== undefined && reachesUser(request.principal, id) ? await findUser(sql.reads, id) : undefined;
        if (user === undefined) throw notFound('user');
        return { status: 200, document: userDocument(user, { ...request, baseUrl, allowsSandboxes }) };
      },
    }),
    remove: guarded({
      title: 'Erase the user',
      isConditional: true,
      summary:
        'Erases the user with their sessions, memberships, grants and apps, immediately; requires the scope platform',
      access: 'platform',
      handle: async (request) => {
        const userId = parseId(request.params['user_id'] ?? '');
        if (userId === undefined) throw notFound('user');
        await eraseUser(deps, userId, request);
        return { status: 204, next: `${baseUrl}/users` };
      },
    }),
  };
}
