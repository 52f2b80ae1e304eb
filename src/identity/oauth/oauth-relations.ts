/**
 * Documents the relations of clients and grants for the reference, with examples rendered by the real code; endpoints.ts
 * documents the OAuth endpoints.
 */
import { listExample, type Chapter, type Example } from '#http/relation.ts';
import { inPersonOf, type Principal } from '#core/principal.ts';
import { clientDocument, installDocument } from './clients/client-document.ts';
import type { Install } from './clients/client-lists-sql.ts';
import type { Client } from './clients/clients-sql.ts';
import { grantDocument } from './connected/grants-api.ts';
import type { ConnectedApp } from './connected/connected-sql.ts';
import { storeGrantDocument } from './connected/store-grants.ts';
import { protocolEndpoints } from './endpoints.ts';
import type { WebhookOfApp } from './webhooks-of-apps-sql.ts';

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
  requiresPkce: false,
  scopes: null,
  allowsDeviceGrant: false,
  isVerified: true,
  ownerId: 41,
  dateCreated: new Date('2026-03-01T10:00:00Z'),
  dateModified: new Date('2026-11-20T16:05:03Z'),
  webhookUrl: 'https://studio.example.com/app-events',
  webhookEvents: ['transaction/created', 'customer/modified'],
  webhookQuery: null,
  webhookFilter: null,
  clientUri: 'https://studio.example.com/',
  policyUri: 'https://studio.example.com/privacy',
  tosUri: null,
  initiateLoginUri: 'https://studio.example.com/install',
  isListed: true,
  logoDate: null,
  suspendedReason: null,
  externalId: null,
};

const grant: ConnectedApp = {
  client: 1,
  id: 7,
  userId: 41,
  email: 'owner@example.com',
  declares: true,
  clientId: client.clientId,
  name: client.name,
  company: client.company,
  isVerified: true,
  ownerId: null,
  logoDate: null,
  isSuspended: false,
  storeId: 1001,
  storeName: 'Corner Shop',
  permissions: null,
  isMember: true,
  dateCreated: new Date('2026-03-04T12:00:00Z'),
  dateUsed: new Date('2026-11-20T16:05:03Z'),
  dateEnds: null,
  webhooks: { total: 3, active: 2, stopping: 2 },
};

const webhooks = ['Orders', 'Customers', 'Refunds'].map((name, at): WebhookOfApp => ({
  id: 2778 + 256 * at,
  client: grant.client,
  userId: grant.userId,
  name,
  isActive: at < 2,
  isForApp: false,
  events: ['transaction/created'],
}));

const install: Install = {
  id: grant.id,
  storeId: grant.storeId,
  storeName: grant.storeName,
  permissions: null,
  dateCreated: grant.dateCreated,
  dateUsed: grant.dateUsed,
  webhooks: 3,
  active: 2,
  failing: 1,
};

/** The app of the grant. */
const app: Principal = {
  ...inPersonOf(41, [1001]),
  clientId: client.id,
  publicClientId: client.clientId,
  grantId: grant.id,
  scope: 'store_full_access',
};

const grantExample: Example = ({ baseUrl }) =>
  grantDocument(grant, { id: grant.id, userId: 41, principal: app, baseUrl });

const storeGrantExample: Example = ({ baseUrl }) =>
  storeGrantDocument(
    { ...grant, entries: 1, hasAccount: false },
    { storeId: 1001, timeZone: 'UTC', principal: app, baseUrl, authUrl: baseUrl, webhooks },
  );

const installExample: Example = ({ baseUrl }) =>
  installDocument(install, { clientId: client.clientId, principal: app, baseUrl });

/** The apps that have access, for developers and for users. */
const accessRelations: Chapter['relations'] = [
  {
    rel: 'installs',
    title: 'Installs of an app',
    about:
      'Where an app is used, for its developer and the platform: one entry per store, and one per account that a user has opened as a whole (its `store_id` is null). `scope` is what all its grants allow together, `date_created` is the oldest of them, `date_used` is when a token was last used, to the hour. The webhooks are those that the app created in the store. Users are not named.',
    paths: ['/clients/:client_id/installs'],
    example: listExample('installs', 'Installs', `/clients/${client.clientId}/installs`, installExample),
  },
  {
    rel: 'install',
    title: 'An install of an app',
    about: 'One entry of the list: a store or an account that the app has access to. It has no address of its own.',
    example: installExample,
  },
  {
    rel: 'grants',
    title: 'Connected apps',
    about:
      'The apps connected to a user, one entry per store or for the whole account; an app with access to one store sees its own entry. Or the apps that the members have let into a store, one entry per app and member, and another one if the member has given it access to the whole account; an app sees its own entries.',
    paths: ['/users/:user_id/grants', '/stores/:store_id/grants'],
    example: listExample('grants', 'Connected apps', '/users/41/grants', grantExample),
  },
  {
    rel: 'grant',
    title: 'A connected app',
    about:
      "The access that a user has granted to an app, with its scope. `webhooks_total` and `webhooks_active` count the webhooks that the app created for the user in the store, or in all stores. `user_id` is who connected it; `user_email` is null for apps. `date_ends` is null for access that is kept until it is revoked. An app deletes only its own. Deleting it revokes all of the grant's tokens, and disables the webhooks to whose stores the user has given the app no other access. Below a store an owner in person deletes those of all members, and a member in person their own; what gives access to the whole account is only deleted below `/grants`.",
    paths: ['/grants/:grant_id', '/stores/:store_id/members/:user_id/grants/:grant_id'],
    example: grantExample,
    variants: [storeGrantExample],
  },
];

/** Returns the reference chapter of the authorization server. */
export function oauthChapter(addresses: { baseUrl: string; authUrl: string }): Chapter {
  const clientExample: Example = ({ baseUrl }) =>
    clientDocument(client, { baseUrl, authUrl: addresses.authUrl }, undefined);
  return {
    title: 'Apps and access',
    about: 'How to register an app, get authorization from a user, and obtain and revoke tokens.',
    relations: [
      {
        rel: 'authorize',
        title: 'Request authorization',
        about:
          "Redirect the user's browser here. The user signs in, sees what your app will be able to do, chooses a store, and is redirected to your redirect address with a code that is valid once, for 30 seconds.",
      },
      {
        rel: 'token',
        title: 'Get an access token',
        about:
          'Exchange a code or a refresh token for an access token, which is valid for two hours. By default, the refresh token of a confidential client does not change.',
      },
      {
        rel: 'register',
        title: 'Register a client',
        about:
          'Create an OAuth client with a program. This requires a registration token of the operator, unless the operator has opened registration. Users can create clients on their account page.',
      },
      {
        rel: 'clients',
        title: 'Clients',
        about: 'The apps that may request access. Only the response that creates a client contains its client_secret.',
        paths: ['/clients', '/users/:user_id/clients'],
        makes: ['client'],
        example: listExample('clients', 'All clients', '/clients', clientExample),
      },
      {
        rel: 'client',
        title: 'A client',
        about: 'An app: the details shown on the consent page, and its redirect addresses.',
        paths: ['/clients/:client_id'],
        example: clientExample,
      },
      {
        rel: 'listing',
        title: 'The public page of an app',
        about:
          'What the app does, what it may ask for, and how it is installed, for people. A client links to it if its developer has switched it on.',
      },
      ...accessRelations,
    ],
    endpoints: protocolEndpoints(addresses),
  };
}
