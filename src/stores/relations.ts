/** What the relations of home, stores and members mean, with examples made as the real ones are. */
import { listExample, type Chapter, type Example } from '#http/relation.ts';
import type { Principal } from '#core/principal.ts';
import { storeDocument, type PublishedCollection } from './document.ts';
import { homeDocument } from './home.ts';
import { memberDocument } from './members/document.ts';
import type { MemberRow } from './members/members-sql.ts';
import type { StoreRow } from './stores-sql.ts';

const store: StoreRow = {
  id: 1001,
  name: 'Corner Shop',
  domain: 'corner.example.com',
  email: 'owner@corner.example.com',
  timeZone: 'Europe/Berlin',
  subscriptionEvents: 'derived',
  revision: 3,
  dateCreated: new Date('2026-01-02T09:00:00Z'),
  dateModified: new Date('2026-11-20T16:05:03Z'),
};

const member: MemberRow = {
  storeId: store.id,
  userId: 41,
  email: 'ada@corner.example.com',
  role: 'owner',
  dateCreated: store.dateCreated,
  timeZone: store.timeZone,
};

/** An app that was let into the store. */
const app: Principal = {
  userId: 41,
  clientId: 11,
  publicClientId: 'q3Jm0vZxT8uKfW2c',
  grantId: 7,
  scope: 'store_full_access',
  stores: [store.id],
  owned: [],
};

const memberExample: Example = ({ baseUrl }) => memberDocument(member, { principal: app, baseUrl });

/** `collections`: what the platform publishes. */
export const storeChapter = ({
  authUrl,
  collections,
}: {
  authUrl: string;
  collections: readonly PublishedCollection[];
}): Chapter => {
  const homeExample: Example = ({ baseUrl }) => homeDocument(app, { baseUrl, authUrl });
  const storeExample: Example = ({ baseUrl }) => storeDocument(store, { baseUrl, collections });
  return {
    title: 'Home and stores',
    about: 'Begin at home; everything else is found by following links from there.',
    relations: [
      {
        rel: 'home',
        title: 'The API home',
        about:
          'The one address to know. Without a token it says how to get one; with a token it leads to the stores that the token reaches.',
        paths: ['/'],
        example: homeExample,
      },
      {
        rel: 'stores',
        title: 'Your stores',
        about:
          'The stores that the token reaches: one for a token of a store, all of a person for a token of an account. Only the platform makes new ones.',
        paths: ['/stores'],
        makes: 'store',
        example: listExample('stores', 'Your stores', '/stores', storeExample),
      },
      {
        rel: 'store',
        title: 'A store',
        about:
          'Its name, its domain and its time zone, in which the dates of everything that belongs to it are shown. Everything in the store is found by its links.',
        paths: ['/stores/:store_id'],
        example: storeExample,
      },
      {
        rel: 'members',
        title: 'The members of a store',
        about:
          'The people who may let apps into the store. An app works only while the person who let it in is a member. A store has at most 100 of them.',
        paths: ['/stores/:store_id/members'],
        makes: 'member',
        example: listExample('members', 'The members of this store', '/stores/1001/members', memberExample),
      },
      {
        rel: 'member',
        title: 'A member of a store',
        about: 'One person in one store, as its owner or as a member.',
        paths: ['/stores/:store_id/members/:user_id'],
        example: memberExample,
      },
    ],
  };
};
