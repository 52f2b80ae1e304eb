/** The API of users, {base_url}/users: input, Document, operations, and their relations for the reference. */
import { Type, type Static } from 'typebox';
import { clearableText, readOnly } from '#http/inputs.ts';
import { EMAIL_LENGTH_MAX, readEmail } from '#core/email.ts';
import {
  PASSWORD_LENGTH_MAX,
  type Passwords,
  addUser,
  emailFault,
  passwordFault,
  passwordLengthMin,
  prepareUser,
  userFields,
  type NewUser,
} from './users.ts';
import type { Document } from '#hypermedia/document.ts';
import { comparisonsOf, propertiesOf, schemasOf, type PartOf } from '#http/field-table.ts';
import type { Condition, Filter } from '#core/listing.ts';
import {
  inPersonOf,
  isInPerson,
  isPerson,
  platformClient,
  reachesAccount,
  reachesUser,
  type Principal,
} from '#core/principal.ts';
import { randomBytes } from 'node:crypto';
import { transaction, type Tx } from '#db/pool.ts';
import { changeOrMake, externalIdHints, keyedIds, keyOf } from '#http/external-keys.ts';
import { findKeyed } from '#http/external-keys-sql.ts';
import { creating } from '#http/idempotency.ts';
import { listing } from '#http/list-operation.ts';
import { accepting, guarded, type ApiRequest, type Operation, type OperationResult } from '#http/operation.ts';
import { idIn } from '#http/route.ts';
import { invalid, notFound, type Fault } from '#core/problem.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { originOf } from './audit.ts';
import type { Links } from './password-change.ts';
import { welcomeMail } from './account-mails.ts';
import type { UserErasure } from './user-end.ts';
import { changeUserIn, type ChangedUser } from './user-changes.ts';
import { countUsers, findUser, listUsers, type UserRow } from './users-sql.ts';
import type { Mail } from '#mail/mailer.ts';
import { listExample, type Chapter, type Example } from '#http/relation.ts';

const externalId = clearableText(externalIdHints('user'));
const derived = { id: readOnly(), is_email_verified: readOnly(), date_created: readOnly() };

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
    external_id: externalId,
    ...derived,
  },
  { additionalProperties: false },
);

const { whole, part } = schemasOf(userFields, {});

function addressOfUser(id: number, baseUrl: string): string {
  return `${baseUrl}/users/${id}`;
}

type UserSettings = { baseUrl: string; stores: { allowsSandboxes: boolean } };

const describe = propertiesOf(userFields);

/**
 * Returns a user's Document. Only the platform and the user in person see the e-mail address: the access granted to an app
 * does not include permission to contact the user.
 */
function userDocument(
  row: UserRow,
  principal: Principal,
  { baseUrl, stores: { allowsSandboxes } }: UserSettings,
): Document {
  const { id, email, revision } = row;
  const self = addressOfUser(id, baseUrl);
  const shown = principal.scope === 'platform' || isInPerson(principal) ? email : null;
  return {
    name: 'user',
    title: shown ?? `User ${id}`,
    version: revision,
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
    properties: describe(row, 'UTC', { email: shown }),
  };
}

type Deps = { passwords: Passwords; links: Links; erasure: UserErasure };

/** Returns a random password for a user created without one, who chooses a password by the mailed link. */
const unknownPassword = (): string => randomBytes(32).toString('base64url');

const preparedUser = (
  { passwords }: Deps,
  { email, password = unknownPassword() }: { email: string; password?: string },
): Promise<NewUser> => prepareUser(passwords, { email, password });

function send({ mailer }: Runtime, mails: readonly Mail[]): void {
  for (const mail of mails) mailer?.send(mail);
}

function addressFaults({ email }: { email?: string | null }): Fault[] {
  const fault = typeof email === 'string' ? emailFault(email) : undefined;
  return fault === undefined ? [] : [fault];
}

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
    ...addressFaults(user),
    password === undefined ? undefined : await passwordFault({ email: email ?? '', password, hasSecondFactor: false }),
    password === undefined && !sendsMail ? PASSWORD_REQUIRED : undefined,
  ];
  return faults.filter((fault) => fault !== undefined);
}

/** Adds a user; without a password, and if mail is configured, with the mail by which they choose one. */
async function addIn(
  tx: Tx,
  { mailer, config: { authUrl } }: Runtime,
  { links, erasure }: Deps,
  { request, user }: { request: ApiRequest<Static<typeof newUser>>; user: NewUser },
): Promise<ChangedUser> {
  const { body, principal, now } = request;
  const by = { origin: originOf(request), client: principal.clientId, now };
  await erasure.eraseUnverified(tx, user.email, request);
  const hasPassword = body.password !== undefined;
  const { id } = await addUser(tx, { ...user, hasPassword }, by);
  const { email } = user;
  const key = body.external_id || null;
  const isNew = { isEmailVerified: true, isEmailOfPlatform: false, revision: 0 };
  const row = { ...isNew, id, email, dateCreated: now, externalId: key };
  const link = hasPassword || mailer === undefined ? undefined : await links.issueIn(tx, id, by);
  const { lifetimeMinutes } = links;
  return { row, mails: link === undefined ? [] : [welcomeMail({ to: email, link, lifetimeMinutes, authUrl })] };
}

const creation = (runtime: Runtime, deps: Deps): Operation =>
  creating({
    title: 'Create a user',
    summary:
      'Creates a user, or changes the one with the external_id; if mail is configured and no password is given, a new user is mailed a link for choosing one',
    access: 'platform',
    statuses: [200, 201],
    input: newUser,
    review: ({ body }) => faultsOf(body, runtime.mailer !== undefined),
    prepare: async ({ body, principal }) => {
      const faults = await faultsOf(body, runtime.mailer !== undefined);
      if (faults.length > 0) throw invalid(...faults);
      const key = keyOf(principal, 'user', body.external_id);
      const isKnown = key !== undefined && (await findKeyed(runtime.sql, key)) !== undefined;
      return isKnown ? undefined : preparedUser(deps, body);
    },
    make: async (tx, request, prepared) => {
      const { body, principal } = request;
      const { row, isKnown, mails } = await changeOrMake<ChangedUser>(tx, keyOf(principal, 'user', body.external_id), {
        change: (userId) => changeUserIn(tx, { ...runtime, ...deps }, { userId, email: body.email }, request),
        make: async () => {
          // The user with this key was erased after `prepare`.
          const user = prepared ?? (await preparedUser(deps, body));
          return addIn(tx, runtime, deps, { request, user });
        },
      });
      return {
        document: userDocument(row, principal, runtime.config),
        location: addressOfUser(row.id, runtime.config.baseUrl),
        ...(isKnown && { isKnown }),
        made: async () => send(runtime, mails),
      };
    },
  });

/** Returns PATCH, and PUT, which removes an `external_id` that it does not name. */
function createChanges(runtime: Runtime, deps: Deps): Record<'patch' | 'replace', Operation> {
  const described = {
    isConditional: true,
    access: 'platform',
    review: async ({ body }: { body: { email?: string | null } }) => addressFaults(body),
  } as const;
  const handle = async (request: ApiRequest<PartOf<typeof userFields>>, isWhole: boolean): Promise<OperationResult> => {
    const { body, principal } = request;
    const faults = addressFaults(body);
    if (faults.length > 0) throw invalid(...faults);
    const userId = idIn(request, 'user_id', 'user');
    const key = body.external_id === '' || (isWhole && body.external_id === undefined) ? null : body.external_id;
    const changed = await transaction(runtime.sql, (tx) =>
      changeUserIn(
        tx,
        { ...runtime, ...deps },
        { userId, email: body.email ?? undefined, externalId: key },
        request,
        request.unmodified,
      ),
    );
    if (changed === undefined) throw notFound('user');
    send(runtime, changed.mails);
    return { status: 200, document: userDocument(changed.row, principal, runtime.config) };
  };
  return {
    patch: accepting({
      ...described,
      title: 'Change the user',
      summary:
        'Changes the external_id and the e-mail address of a user; unless the operator trusts the platform, the user has to confirm the address; requires the scope platform',
      input: part,
      handle: (request) => handle(request, false),
    }),
    replace: accepting({
      ...described,
      title: 'Replace the user',
      summary: 'Replaces the external_id and the e-mail address of a user as PATCH does; requires the scope platform',
      input: whole,
      handle: (request) => handle(request, true),
    }),
  };
}

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
      properties: comparisonsOf(userFields),
      handle: async (request) => {
        const found = { ...request.listing, filters: request.listing.filters.map(withStoredSpellings) };
        const { principal } = request;
        const ids = await keyedIds(sql, { principal, resource: 'user', filters: found.filters });
        const shown = { ids, reader: platformClient(principal) };
        const [rows, total] = await Promise.all([listUsers(sql, shown, found), countUsers(sql, shown, found)]);
        const items = rows.map((row) => userDocument(row, principal, config));
        return { path: `${baseUrl}/users`, items, total };
      },
    }),
    create: creation(runtime, deps),
    ...createChanges(runtime, deps),
    read: guarded({
      summary: 'Returns a user',
      scopes: 'any',
      handle: async (request) => {
        const { principal } = request;
        const id = idIn(request, 'user_id', 'user');
        const user = reachesUser(principal, id) ? await findUser(sql.reads, id, platformClient(principal)) : undefined;
        if (user === undefined) throw notFound('user');
        return { status: 200, document: userDocument(user, principal, config) };
      },
    }),
    remove: guarded({
      title: 'Erase the user',
      isConditional: true,
      summary:
        'Erases the user with their sessions, memberships, grants and apps, immediately; requires the scope platform',
      access: 'platform',
      handle: async (request) => {
        await deps.erasure.eraseUser(idIn(request, 'user_id', 'user'), request);
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
  revision: 0,
  externalId: null,
  isEmailOfPlatform: false,
};

/** The platform sees the e-mail address. */
const platform: Principal = { ...inPersonOf(user.id), userId: null, clientId: 1, scope: 'platform', stores: 'all' };

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
