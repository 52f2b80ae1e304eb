/** Users over the API: POST {base}/users and GET {base}/users/:user_id. */
import { randomBytes } from 'node:crypto';
import { Type } from 'typebox';
import { transaction, type Sql } from '#database/pool.ts';
import { accepting, guarded, type Operation } from '#http/operation.ts';
import { formatDate } from '#hypermedia/date.ts';
import { date, number, text, type Document } from '#hypermedia/document.ts';
import { refuseParameters } from '#hypermedia/parameters.ts';
import { parseId } from '#kernel/ids.ts';
import { invalid, notFound, type Fault } from '#kernel/problem.ts';
import type { Principal } from '#kernel/principal.ts';
import type { Mailer } from '#mail/mail.ts';
import { originOf } from './audit/audit.ts';
import type { Passwords } from './passwords.ts';
import type { Links } from './password/links.ts';
import { welcomeMail } from './password/mails.ts';
import { findUser, type UserRow } from './queries.ts';
import { addUser, emailFault, prepareUser } from './users.ts';

const input = Type.Object(
  { email: Type.String(), password: Type.Optional(Type.String()) },
  { additionalProperties: false },
);

const documentOf = ({ id, email, dateCreated }: UserRow, baseUrl: string): Document => ({
  name: 'user',
  links: [
    { rel: 'self', href: `${baseUrl}/users/${id}`, title: 'This user' },
    { rel: 'stores', href: `${baseUrl}/stores`, title: 'The stores that your token reaches' },
  ],
  embedded: [],
  properties: [number('id', id), text('email', email), date('date_created', formatDate(dateCreated, 'UTC'))],
});

/** The platform sees all; a token for a whole account sees the account. */
const sees = ({ scope, userId }: Principal, id: number): boolean =>
  scope === 'platform' || (scope === 'user_full_access' && userId === id);

/** Nobody knows it: who is made without a password gets in by a link. */
const unknownPassword = (): string => randomBytes(32).toString('base64url');

/** Where no mail is sent they would never get in. */
const PASSWORD_REQUIRED: Fault = {
  code: 'required',
  message: 'password is required, as this service sends no mail by which they could choose one',
  field: 'password',
};

export const createUserOperations = (deps: {
  sql: Sql;
  passwords: Passwords;
  links: Links;
  mailer: Mailer | undefined;
  baseUrl: string;
  authUrl: string;
}): { create: Operation; read: Operation } => {
  const { sql, passwords, links, mailer, baseUrl, authUrl } = deps;
  const { lifetimeMinutes } = links;
  return {
    create: accepting({
      summary: 'Make a user; without a password they are mailed a link, where mail is set up, by which they choose one',
      access: 'platform',
      input,
      handle: async (request) => {
        refuseParameters(request.query, []);
        const { email, password } = request.body;
        if (password === undefined && mailer === undefined)
          throw invalid(...[emailFault(email), PASSWORD_REQUIRED].filter((fault) => fault !== undefined));
        const by = { origin: originOf(request), client: request.principal.clientId, now: request.now };
        const prepared = await prepareUser(passwords, { email, password: password ?? unknownPassword() });
        const { id } = await transaction(sql, (tx) => addUser(tx, prepared, by));
        if (password === undefined && mailer !== undefined) {
          const link = await links.issue(id, by);
          if (link !== undefined) mailer.send(welcomeMail({ to: email, link, lifetimeMinutes, authUrl }));
        }
        const document = documentOf({ id, email, dateCreated: request.now }, baseUrl);
        return { status: 201, location: `${baseUrl}/users/${id}`, document };
      },
    }),
    read: guarded({
      summary: 'One user',
      handle: async ({ params, principal, query }) => {
        refuseParameters(query, []);
        const id = parseId(params['user_id'] ?? '');
        const user = id !== undefined && sees(principal, id) ? await findUser(sql, id) : undefined;
        if (user === undefined) throw notFound('user');
        return { status: 200, document: documentOf(user, baseUrl) };
      },
    }),
  };
};
