/** What the relations of users mean, with examples made as the real ones are. */
import { listExample, type Chapter, type Example } from '#http/relation.ts';
import type { Principal } from '#core/principal.ts';
import type { UserRow } from '../accounts-sql.ts';
import { userDocument } from './document.ts';

const user: UserRow = { id: 41, email: 'ada@example.com', dateCreated: new Date('2026-01-02T09:00:00Z') };

const platform: Principal = {
  userId: null,
  clientId: 1,
  publicClientId: 'n0Xw5rPbLc9dEvQ4',
  grantId: 1,
  scope: 'platform',
  stores: 'all',
  owned: [],
};

const userExample: Example = ({ baseUrl }) => userDocument(user, { principal: platform, baseUrl });

export const userChapter: Chapter = {
  title: 'Users',
  about: 'The people who have accounts, and what they have let in.',
  relations: [
    {
      rel: 'users',
      title: 'Users',
      about:
        'Everybody who has an account, for the platform. Whoever is made without a password is mailed a link by which they choose one.',
      paths: ['/users'],
      makes: 'user',
      example: listExample('users', 'All users', '/users', userExample),
    },
    {
      rel: 'user',
      title: 'A user',
      about: 'A person with an account. Their address is shown to the platform and to themselves, but to no app.',
      paths: ['/users/:user_id'],
      example: userExample,
    },
  ],
};
