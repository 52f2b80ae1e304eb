/** What the relations of clients mean, with examples made as the real ones are. The protocol's addresses: endpoints.ts. */
import { listExample, type Chapter, type Example } from '#http/relation.ts';
import type { Principal } from '#core/principal.ts';
import { clientDocument } from './clients/api/document.ts';
import type { Client } from './clients/clients-sql.ts';
import { grantDocument } from './connected/api/document.ts';
import type { ConnectedRow } from './connected/connected-sql.ts';
import { protocolEndpoints } from './endpoints.ts';

const client: Client = {
  id: 11,
  clientId: 'q3Jm0vZxT8uKfW2c',
  name: 'Newsletter Studio',
  company: 'Example Mail GmbH',
  description: 'Writes to your customers when something they like is on sale again.',
  contact: 'help@studio.example.com',
  redirectUris: ['https://studio.example.com/oauth/callback'],
  isPublic: false,
  trusted: false,
  isLegacy: false,
  rotatesRefreshTokens: false,
  isVerified: true,
  ownerId: 41,
  dateCreated: new Date('2026-03-01T10:00:00Z'),
  dateModified: new Date('2026-11-20T16:05:03Z'),
  logoDate: null,
};

const grant: ConnectedRow = {
  grantId: 7,
  clientId: client.clientId,
  name: client.name,
  company: client.company,
  isVerified: true,
  ownerId: null,
  logoDate: null,
  storeId: 1001,
  storeName: 'Corner Shop',
  isMember: true,
  since: new Date('2026-03-04T12:00:00Z'),
  lastUsed: new Date('2026-11-20T16:05:03Z'),
};

/** The app itself, which was let into the store. */
const app: Principal = {
  userId: 41,
  clientId: client.id,
  publicClientId: client.clientId,
  grantId: grant.grantId,
  scope: 'store_full_access',
  stores: [1001],
  owned: [],
};

const grantExample: Example = ({ baseUrl }) =>
  grantDocument(grant, { id: grant.grantId, userId: 41, principal: app, baseUrl });

/** The authorization server, and what it knows of clients. */
export const oauthChapter = (addresses: { baseUrl: string; authUrl: string }): Chapter => {
  const clientExample: Example = ({ baseUrl }) =>
    clientDocument(client, { baseUrl, authUrl: addresses.authUrl, clientSecret: null });
  return {
    title: 'Apps and access',
    about: 'How an app is registered, how a person lets it in, and how it gets and gives up its tokens.',
    relations: [
      {
        rel: 'authorize',
        title: 'Ask a person to let you in',
        about:
          'Send the browser of a person here. They sign in, see what your app will be able to do, choose a store, and come back to your redirect address with a code that is good for 30 seconds, once.',
      },
      {
        rel: 'token',
        title: 'Get an access token',
        about:
          'Exchange a code or a refresh token for an access token, which is good for two hours. Of a confidential client the refresh token stays the same for as long as it is used.',
      },
      {
        rel: 'register',
        title: 'Register a client',
        about:
          'Make an OAuth client by program. It needs a registration token of the operator, unless the operator lets everybody register; people can do the same on their account page.',
      },
      {
        rel: 'clients',
        title: 'Clients',
        about:
          'The apps that may ask people for access. The client_secret of a new one is in the answer that makes it and in none after it.',
        paths: ['/clients', '/users/:user_id/clients'],
        makes: 'client',
      },
      {
        rel: 'client',
        title: 'A client',
        about:
          'An app: what people read of it on the page that asks for their consent, and where they may be sent back to.',
        paths: ['/clients/:client_id'],
        example: clientExample,
      },
      {
        rel: 'grants',
        title: 'Connected apps',
        about:
          'The apps that a person has let in, one entry for each store or for the whole account. An app for one store finds itself here.',
        paths: ['/users/:user_id/grants'],
        example: listExample('grants', 'Connected apps', '/users/41/grants', grantExample),
      },
      {
        rel: 'grant',
        title: 'A connected app',
        about:
          'That a person has let an app in, and how far. When it is deleted, every token that came of it is worth nothing.',
        paths: ['/grants/:grant_id'],
        example: grantExample,
      },
    ],
    endpoints: protocolEndpoints(addresses),
  };
};
