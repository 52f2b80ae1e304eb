/** The API home, from which clients follow links. */
import { open, type Operation } from '#http/operation.ts';
import { homeOf } from '#http/root.ts';
import type { Document, Link } from '#hypermedia/document.ts';
import type { View } from '#hypermedia/view.ts';
import type { Principal } from '#core/principal.ts';

/** Returns the links of a caller: to its user, and to its only store or its list of stores. */
function ownLinks({ scope, stores, userId }: Principal, baseUrl: string): Link[] {
  const [only] = stores;
  const user: Link[] =
    userId === null ? [] : [{ rel: 'user', href: `${baseUrl}/users/${userId}`, title: 'Your account' }];
  if ((scope === 'store_full_access' || scope === 'store_limited') && typeof only === 'number')
    return [...user, { rel: 'store', href: `${baseUrl}/stores/${only}`, title: 'Your store' }];
  const isPlatform = scope === 'platform';
  const storesLink = { rel: 'stores', href: `${baseUrl}/stores`, title: isPlatform ? 'All stores' : 'Your stores' };
  if (!isPlatform) return [...user, storesLink];
  return [
    storesLink,
    { rel: 'users', href: `${baseUrl}/users`, title: 'All users' },
    { rel: 'clients', href: `${baseUrl}/clients`, title: 'All OAuth clients' },
  ];
}

/** Returns the Document of the API home; without a caller it only links to the ways to get a token. */
export function homeDocument(
  principal: Principal | null,
  { baseUrl, authUrl }: { baseUrl: string; authUrl: string },
): Document {
  const links: Link[] = [
    { rel: 'self', href: homeOf(baseUrl), title: 'The API home' },
    {
      rel: 'token',
      href: `${baseUrl}/token`,
      title: 'Exchange an authorization code or a refresh token for an access token',
      type: 'application/json',
    },
    {
      rel: 'authorize',
      href: `${authUrl}/authorize`,
      title: 'Ask a user to authorize your application',
      isForPrograms: true,
    },
    { rel: 'register', href: `${authUrl}/register`, title: 'Register an OAuth client', type: 'application/json' },
    { rel: 'docs', href: `${baseUrl}/docs`, title: 'API documentation', type: 'text/html' },
    ...(principal === null ? [] : ownLinks(principal, baseUrl)),
  ];
  return { name: 'home', title: 'Home', links, embedded: [], properties: [] };
}

/** Creates the operation. `frontPage` renders the page of a caller who is not signed in. */
export function createHome(
  addresses: { baseUrl: string; authUrl: string },
  frontPage: (shown: { document: Document; view: View }) => string,
): Operation {
  return open({
    summary: 'The entry point: how to get a token and, with a token, the resources that it has access to',
    handle: async ({ principal }) => {
      const document = homeDocument(principal, addresses);
      return { status: 200, document, ...(principal === null && { page: (view) => frontPage({ document, view }) }) };
    },
  });
}
