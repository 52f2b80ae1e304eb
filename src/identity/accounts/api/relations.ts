/** Documents the relations of users for the reference, with examples rendered by the real code. */
import { listExample, type Chapter, type Example } from '#http/relation.ts';
import type { Principal } from '#core/principal.ts';
import type { UserRow } from '../accounts-sql.ts';
import { userDocument } from './document.ts';

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
  userDocument(user, { principal: platform, baseUrl, allowsSandboxes: true });

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
