/** The API's front door: from here every client finds its way by links. */
import { open, type Operation } from '#http/operation.ts';
import { homeOf } from '#http/root.ts';
import type { Document, Link } from '#hypermedia/document.ts';
import type { Principal } from '#core/principal.ts';

/** Where a token or a session leads: to whom it stands for, and to the one store or the list of those it reaches. */
const ownLinks = ({ scope, stores, userId }: Principal, baseUrl: string): Link[] => {
  const [only] = stores;
  const user: Link[] =
    userId === null ? [] : [{ rel: 'user', href: `${baseUrl}/users/${userId}`, title: 'Your account' }];
  if (scope === 'store_full_access' && typeof only === 'number')
    return [...user, { rel: 'store', href: `${baseUrl}/stores/${only}`, title: 'Your store' }];
  const isPlatform = scope === 'platform';
  const all = { rel: 'stores', href: `${baseUrl}/stores`, title: isPlatform ? 'All stores' : 'Your stores' };
  if (!isPlatform) return [...user, all];
  return [
    all,
    { rel: 'users', href: `${baseUrl}/users`, title: 'All users' },
    { rel: 'clients', href: `${baseUrl}/clients`, title: 'All OAuth clients' },
  ];
};

/** What an app finds first; without a token, how to get one. */
export const homeDocument = (
  principal: Principal | null,
  { baseUrl, authUrl }: { baseUrl: string; authUrl: string },
): Document => {
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
      title: 'Ask a user to let your application in',
      isForPrograms: true,
    },
    { rel: 'register', href: `${authUrl}/register`, title: 'Register an OAuth client', type: 'application/json' },
    { rel: 'docs', href: `${baseUrl}/docs`, title: 'What this API can do, and how', type: 'text/html' },
    ...(principal === null ? [] : ownLinks(principal, baseUrl)),
  ];
  return { name: 'home', title: 'Home', links, embedded: [], properties: [] };
};

export const createHome = (addresses: { baseUrl: string; authUrl: string }): Operation =>
  open({
    summary: 'Where everything begins: how to get a token, and with one, what it reaches',
    handle: async ({ principal }) => ({ status: 200, document: homeDocument(principal, addresses) }),
  });
