import { formatDate } from '#hypermedia/date.ts';
import { boolean, date, json, number, secret, text, url, type Document } from '#hypermedia/document.ts';
import { logoPath } from '../logo/logo.ts';
import type { Client } from '../queries.ts';

export const addressOfClient = (clientId: string, baseUrl: string): string => `${baseUrl}/clients/${clientId}`;

/** A client. `clientSecret` is null but in the answer that makes it: nobody can read it again. */
export const clientDocument = (
  client: Client,
  shown: { baseUrl: string; authUrl: string; clientSecret: string | null },
): Document => {
  const { clientId, logoDate } = client;
  return {
    name: 'client',
    links: [{ rel: 'self', href: addressOfClient(clientId, shown.baseUrl), title: 'This client' }],
    embedded: [],
    properties: [
      text('client_id', clientId),
      secret('client_secret', shown.clientSecret),
      text('name', client.name),
      text('company', client.company),
      text('description', client.description),
      text('contact', client.contact),
      json('redirect_uris', client.redirectUris),
      url('logo', logoDate === null ? null : logoPath(shown.authUrl, clientId, logoDate)),
      number('owner', client.ownerId),
      boolean('is_public', client.isPublic),
      boolean('is_trusted', client.trusted),
      boolean('is_verified', client.isVerified),
      boolean('is_legacy', client.isLegacy),
      boolean('rotates_refresh_tokens', client.rotatesRefreshTokens),
      date('date_created', formatDate(client.dateCreated, 'UTC')),
      date('date_modified', formatDate(client.dateModified, 'UTC')),
    ],
  };
};
