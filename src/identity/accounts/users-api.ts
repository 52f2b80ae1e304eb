/** The API of users, {base_url}/users: input, Document, operations, and their relations for the reference. */
import { Type } from 'typebox';
import { readOnly } from '#http/inputs.ts';
import { EMAIL_LENGTH_MAX, readEmail } from '#core/email.ts';
import { PASSWORD_LENGTH_MAX, type Passwords } from './passwords.ts';
import { addUser, emailFault, passwordFault, passwordLengthMin, prepareUser } from './users.ts';
import { formatDate } from '#hypermedia/date.ts';
import { boolean, date, number, text, type Document } from '#hypermedia/document.ts';
import type { Comparisons, Condition, Filter } from '#core/listing.ts';
import { isInPerson, isPerson, reachesAccount, reachesUser, type Principal } from '#core/principal.ts';
import { findUser, type UserRow } from './accounts-sql.ts';
import { randomBytes } from 'node:crypto';
import { creating } from '#http/idempotency.ts';
import { listing } from '#http/list-operation.ts';
import { guarded, type Operation } from '#http/operation.ts';
import { parseId } from '#core/ids.ts';
import { invalid, notFound, type Fault } from '#core/problem.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { originOf } from './audit.ts';
import type { Links } from './password-change.ts';
import { welcomeMail } from './account-mails.ts';
import type { UserErasure } from './user-erasure.ts';
import { countUsers, listUsers } from './users-sql.ts';
import { listExample, type Chapter, type Example } from '#http/relation.ts';

const newUser = Type.Object(
  {
    email: Type.String({ maxLength: EMAIL_LENGTH_MAX, description: 'The address the user signs in with.' }),
    password: Type.Optional(
      Type.String({
        minLength: passwordLengthMin({ hasSecondFactor: false }),
        maxLength: PASSWORD_LENGTH_MAX,
        kind: 'secret',
        description: 'If omitted and mail is configured, the user is mailed a link for choosing one.',
      }),
    ),
    id: readOnly(),
    is_email_verified: readOnly(),
    date_created: readOnly(),
  },
  { additionalProperties: false },
);

/** The comparison of each property of a user, for filters and order. */
export const USER_PROPERTIES = {
  id: 'number',
  email: 'text',
  is_email_verified: 'boolean',
  date_created: 'date',
} as const satisfies Comparisons;

function addressOfUser(id: number, baseUrl: string): string {
  return `${baseUrl}/users/${id}`;
}

type UserSettings = { baseUrl: string; stores: { allowsSandboxes: boolean } };

/**
 * Returns a user's Document. Only the platform and the user in person see the e-mail address: the access granted to an app
 * does not include permission to contact the user.
 */
function userDocument(
  { id, email, isEmailVerified, dateCreated }: UserRow,
  principal: Principal,
  { baseUrl, stores: { allowsSandboxes } }: UserSettings,
): Document {
  const self = addressOfUser(id, baseUrl);
  const shown = principal.scope === 'platform' || isInPerson(principal) ? email : null;
  return {
    name: 'user',
    title: shown ?? `User ${id}`,
    // The displayed properties of a user never change.
    version: dateCreated.getTime(),
    links: [
      { rel: 'self', href: self, title: 'This user' },
      { rel: 'stores', href: `${baseUrl}/stores`, title: 'The stores that your token can access' },
      { rel: 'grants', href: `${self}/grants`, title: 'The apps connected to this user' },
      ...(isPerson(principal, id)
        ? [{ rel: 'invitations', href: `${self}/invitations`, title: 'Your invitations' }]
        : []),
      ...(reachesAccount(principal, id)
        ? [{ rel: 'clients', href: `${self}/clients`, title: 'The apps created by this user' }]
        : []),
      ...(reachesAccount(principal, id) && allowsSandboxes
        ? [{ rel: 'sandbox_store', href: `${self}/sandbox_store`, title: 'Create the sandbox store of this user' }]
        : []),
    ],
    embedded: [],
    properties: [
      number('id', id),
      text.orNull('email', shown),
      boolean('is_email_verified', isEmailVerified),
      date('date_created', formatDate(dateCreated, 'UTC')),
    ],
  };
}

type Deps = { passwords: Passwords; links: Links; erasure: UserErasure };

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

const creation = ({ mailer, config }: Runtime, { passwords, links, erasure }: Deps): Operation =>
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
      await erasure.eraseUnverified(tx, prepared.email, request);
      const { id } = await addUser(tx, prepared, by);
      const row = { id, email: prepared.email, isEmailVerified: true, dateCreated: request.now };
      const isInvited = request.body.password === undefined && mailer !== undefined;
      const link = isInvited ? await links.issueIn(tx, id, by) : undefined;
      return {
        document: userDocument(row, request.principal, config),
        location: addressOfUser(id, config.baseUrl),
        made: async () => {
          const { lifetimeMinutes } = links;
          if (link !== undefined)
            mailer?.send(welcomeMail({ to: row.email, link, lifetimeMinutes, authUrl: config.authUrl }));
        },
      };
    },
  });

/** Returns the condition with the spelling in which addresses are stored. */
function withStoredSpelling(condition: Condition): Condition {
  const { property, operator, value } = condition;
  const isAddress = property === 'email' && (operator === 'is' || operator === 'not') && typeof value === 'string';
  return isAddress ? { ...condition, value: readEmail(value) ?? value } : condition;
}

const withStoredSpellings = (filter: Filter): Filter =>
  filter.operator === 'in' ? { ...filter, value: filter.value.map(withStoredSpelling) } : withStoredSpelling(filter);

export function createUserOperations(runtime: Runtime, deps: Deps) {
  const { sql, config } = runtime;
  const { baseUrl } = config;
  return {
    list: listing({
      summary: 'Lists all users; requires the scope platform',
      access: 'platform',
      rel: 'users',
      title: 'All users',
      properties: USER_PROPERTIES,
      handle: async (request) => {
        const found = { ...request.listing, filters: request.listing.filters.map(withStoredSpellings) };
        const [rows, total] = await Promise.all([listUsers(sql, found), countUsers(sql, found)]);
        const items = rows.map((row) => userDocument(row, request.principal, config));
        return { path: `${baseUrl}/users`, items, total };
      },
    }),
    create: creation(runtime, deps),
    read: guarded({
      summary: 'Returns a user',
      scopes: 'any',
      handle: async (request) => {
        const id = parseId(request.params['user_id'] ?? '');
        const user = id !== undefined && reachesUser(request.principal, id) ? await findUser(sql.reads, id) : undefined;
        if (user === undefined) throw notFound('user');
        return { status: 200, document: userDocument(user, request.principal, config) };
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
        await deps.erasure.eraseUser(userId, request);
        return { status: 204, next: `${baseUrl}/users` };
      },
    }),
  };
}

const user: UserRow = {
  id: 41,
  email: 'ada@example.com',
  isEmailVerified: true,
  dateCreated: new Date('2026-01-02T09:00:00Z'),
};

const platform: Principal = {
  userId: null,
  clientId: 1,
  publicClientId: 'n0Xw5rPbLc9dEvQ4',
  grantId: 1,
  scope: 'platform',
  permissions: null,
  stores: 'all',
  owned: [],
};

const userExample: Example = ({ baseUrl }) =>
  userDocument(user, platform, { baseUrl, stores: { allowsSandboxes: true } });

export const userChapter: Chapter = {
  title: 'Users',
  about: 'Users with an account, and the apps they have connected.',
  relations: [
    {
      rel: 'users',
      title: 'Users',
      about:
        'All users with an account; only for the platform. A user created without a password is mailed a link for choosing one.',
      paths: ['/users'],
      makes: ['user'],
      example: listExample('users', 'All users', '/users', userExample),
    },
    {
      rel: 'user',
      title: 'A user',
      about: 'A person with an account. Only the platform and the user see the e-mail address; apps do not.',
      paths: ['/users/:user_id'],
      example: userExample,
    },
  ],
};
