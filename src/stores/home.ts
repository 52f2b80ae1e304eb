/** The API's front door: from here every client finds its way by links. */
import { open, type Operation } from '#http/operation.ts';
import type { Link } from '#hypermedia/document.ts';
import { refuseParameters } from '#hypermedia/parameters.ts';
import type { Principal } from '#kernel/principal.ts';

/** Where a token leads: to its one store, or to the list of those it reaches. */
const ownLinks = (principal: Principal, baseUrl: string): Link[] => {
  const [only] = principal.stores;
  if (principal.scope === 'store_full_access' && typeof only === 'number') {
    return [{ rel: 'store', href: `${baseUrl}/stores/${only}`, title: 'Your store' }];
  }
  return [{ rel: 'stores', href: `${baseUrl}/stores`, title: 'Your stores' }];
};

export const createHome = ({ baseUrl, authUrl }: { baseUrl: string; authUrl: string }): Operation =>
  open({
    summary: 'Where everything begins: how to get a token, and with one, what it reaches',
    handle: async ({ principal, query }) => {
      refuseParameters(query, []);
      const links: Link[] = [
        { rel: 'self', href: `${baseUrl}/`, title: 'The API home' },
        {
          rel: 'token',
          href: `${baseUrl}/token`,
          title: 'Exchange an authorization code or a refresh token for an access token',
          type: 'application/json',
        },
        { rel: 'authorize', href: `${authUrl}/authorize`, title: 'Ask a user to let your application in' },
        {
          rel: 'register',
          href: `${authUrl}/register`,
          title: 'Register an OAuth client',
          type: 'application/json',
        },
        ...(principal === null ? [] : ownLinks(principal, baseUrl)),
      ];
      return { status: 200, document: { name: 'home', links, embedded: [], properties: [] } };
    },
  });
