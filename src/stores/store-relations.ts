/** Documentation of the relations of home, stores and members; the examples are made by the same code as real documents. */
import { listExample, type Chapter, type Example, type Relation } from '#http/relation.ts';
import { inPersonOf, type Principal } from '#core/principal.ts';
import { storeDocument, type PublishedCollection } from './store-document.ts';
import { homeDocument } from './home.ts';
import { invitationDocument, receivedDocument } from './invitations/invitation.ts';
import type { InvitationRow } from './invitations/invitations-sql.ts';
import { awaitedDocument, portalLinkDocument, memberDocument } from './members/member.ts';
import type { AwaitedRow, MemberRow } from './members/members-sql.ts';
import type { StoreRow } from './stores-sql.ts';

const store: StoreRow = {
  id: 1001,
  name: 'Corner Shop',
  domain: 'corner.example.com',
  email: 'owner@corner.example.com',
  timeZone: 'Europe/Berlin',
  subscriptionEvents: 'derived',
  secondFactor: 'optional',
  isSandbox: false,
  externalId: null,
  suspendedReason: null,
  revision: 3,
  dateCreated: new Date('2026-01-02T09:00:00Z'),
  dateModified: new Date('2026-11-20T16:05:03Z'),
};

const member: MemberRow = {
  storeId: store.id,
  userId: 41,
  email: 'ada@corner.example.com',
  isEmailVerified: true,
  role: 'owner',
  dateCreated: store.dateCreated,
  timeZone: store.timeZone,
};

const invitation: InvitationRow = {
  id: 5097,
  storeId: store.id,
  email: 'grace@corner.example.com',
  role: 'member',
  isMailed: true,
  createdBy: member.userId,
  dateCreated: store.dateModified,
  dateExpires: new Date('2026-11-23T16:05:03Z'),
  timeZone: store.timeZone,
};

/** An app with access to the store. */
const app: Principal = {
  ...inPersonOf(41, [store.id]),
  clientId: 11,
  publicClientId: 'q3Jm0vZxT8uKfW2c',
  grantId: 7,
  scope: 'store_full_access',
};

const platform: Principal = { ...app, userId: null, scope: 'platform', stores: [] };

const awaited: AwaitedRow = {
  storeId: store.id,
  issuer: 'https://accounts.example.com',
  subject: '4711',
  role: 'owner',
  dateCreated: store.dateModified,
  timeZone: store.timeZone,
};

const awaitedExample: Example = ({ baseUrl }) => awaitedDocument(awaited, { baseUrl });

const invitationExample: Example = ({ baseUrl }) => invitationDocument(invitation, { baseUrl, link: null });

const receivedExample: Example = ({ baseUrl }) =>
  receivedDocument(
    { ...invitation, shard: 233, email: 'grace@corner.example.com', storeName: store.name },
    { userId: 42, baseUrl },
  );

const memberExample: Example = ({ baseUrl }) => memberDocument(member, { principal: app, baseUrl });

const invitationRelations: readonly Relation[] = [
  {
    rel: 'invitations',
    title: 'The invitations to a store',
    about:
      'The pending invitations of a store, or to a signed-in person, who accepts and declines them there. The person with the link becomes a member, with an account or a new one. An invitation can be accepted once, within 72 hours; then it is deleted. A store has at most 100.',
    paths: ['/stores/:store_id/invitations', '/users/:user_id/invitations'],
    makes: ['invitation'],
    example: listExample('invitations', 'Invitations to this store', '/stores/1001/invitations', invitationExample),
  },
  {
    rel: 'invitation',
    title: 'An invitation to a store',
    about:
      'With email only an account with this address can accept, else the first person with the link. Only the response that creates the invitation contains its link.',
    paths: ['/stores/:store_id/invitations/:invitation_id'],
    example: invitationExample,
  },
  {
    rel: 'received_invitation',
    title: 'An invitation to a person',
    about:
      'An invitation to the e-mail address of the signed-in person. DELETE declines it. An account whose e-mail address is not verified has none.',
    paths: ['/users/:user_id/invitations/:invitation_id'],
    example: receivedExample,
  },
  {
    rel: 'accept',
    title: 'Join the store',
    about: 'Accepts an invitation: the person becomes a member with its role.',
    paths: ['/users/:user_id/invitations/:invitation_id/accept'],
  },
];

const memberRelations: readonly Relation[] = [
  {
    rel: 'members',
    title: 'The members of a store',
    about:
      'The users who can authorize apps for the store. An app has access only while the user who authorized it is a member. A store has at most 100 members.',
    paths: ['/stores/:store_id/members'],
    makes: ['member', 'invitation', 'awaited_member'],
    example: listExample('members', 'The members of this store', '/stores/1001/members', memberExample),
  },
  {
    rel: 'member',
    title: 'A member of a store',
    about: 'A user of a store, as its owner or as a member.',
    paths: ['/stores/:store_id/members/:user_id'],
    example: memberExample,
  },
  {
    rel: 'awaited_members',
    title: 'Memberships that wait for a sign-in',
    about:
      'The members that the platform has named by their account at an OpenID provider, and who have not signed in with it yet. The first sign-in makes the person a member.',
    paths: ['/stores/:store_id/awaited_members'],
    example: listExample(
      'awaited_members',
      'Memberships that wait for a sign-in',
      '/stores/1001/awaited_members',
      awaitedExample,
    ),
  },
  {
    rel: 'awaited_member',
    title: 'A membership that waits for a sign-in',
    about:
      'One entry of the list. DELETE with the issuer and subject ends it, and also the membership of the person once they have signed in.',
    paths: ['/stores/:store_id/members/by_identity'],
    example: awaitedExample,
  },
];

const portalLinkExample: Example = ({ baseUrl }) =>
  portalLinkDocument(member, {
    baseUrl,
    url: `${baseUrl}/portal?token=hal_pl_…`,
    expires: new Date(store.dateModified.getTime() + 60_000),
  });

const portalRelations: readonly Relation[] = [
  {
    rel: 'links',
    title: 'Links to the pages of a store',
    about:
      'A POST of the platform makes a link for a person who is signed in there and a member of the store. The link works once, within 60 seconds, and opens the pages of this store for two hours, with the rights of a member who is no owner; for everything that needs a proof of who they are the person signs in.',
    paths: ['/stores/:store_id/links'],
    makes: ['portal_link'],
  },
  {
    rel: 'portal_link',
    title: 'A link to the pages of a store',
    about: 'The response to the request that makes the link, and the only one that contains it.',
    example: portalLinkExample,
  },
];

/** `collections`: the collections of published resources. */
export function storeChapter(of: { authUrl: string; collections: readonly PublishedCollection[] }): Chapter {
  const { authUrl, collections } = of;
  const homeOf =
    (principal: Principal): Example =>
    ({ baseUrl }) =>
      homeDocument(principal, { baseUrl, authUrl });
  const storeExample: Example = ({ baseUrl }) => storeDocument(store, { baseUrl, collections });
  return {
    title: 'Home and stores',
    about: 'Start at home and follow links to all other resources.',
    relations: [
      {
        rel: 'home',
        title: 'The API home',
        about:
          'The entry point. Without a token it links to the ways to get one; with a token it links to the stores that the token has access to.',
        paths: ['/'],
        example: homeOf(app),
        variants: [homeOf(platform)],
      },
      {
        rel: 'stores',
        title: 'Your stores',
        about:
          'The stores that the token has access to: one for a token of a store, all stores of the user for a token of an account. Only the platform creates stores.',
        paths: ['/stores'],
        makes: ['store'],
        example: listExample('stores', 'Your stores', '/stores', storeExample),
      },
      {
        rel: 'store',
        title: 'A store',
        about:
          'The name, domain and time zone of a store, with links to everything in it. All dates of its resources are shown in its time zone.',
        paths: ['/stores/:store_id'],
        example: storeExample,
      },
      {
        rel: 'concerned_store',
        title: 'The store that an event for the operator concerns',
        about: 'The store in which it happened. The store of the event itself is the platform store.',
        paths: ['/stores/:store_id'],
      },
      {
        rel: 'sandbox_store',
        title: 'The sandbox store of a user',
        about:
          'A POST returns the store in which the user tries apps, and creates it the first time. It is like any other store, has is_sandbox, links to sample events, belongs to the user instead of the platform, and is erased with the account. Absent if the operator has switched sandbox stores off.',
        paths: ['/users/:user_id/sandbox_store'],
        makes: ['store'],
      },
      ...memberRelations,
      ...portalRelations,
      ...invitationRelations,
    ],
  };
}
