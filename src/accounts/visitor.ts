/** Who is signed in, as somebody who looks at the resources of the API with a browser. */
import { rootOf } from '#http/root.ts';
import type { Pages } from '#http/caller.ts';
import { html } from '#hypermedia/markup.ts';
import { isFormNonce } from './form-nonce.ts';
import { accountNav } from './nav.ts';
import type { Sessions } from './sessions.ts';
import type { SignedIn } from './signed-in.ts';

/** The stores somebody is a member of, and those of them that they own. */
export type MembershipsOf = (userId: number) => Promise<{ stores: readonly number[]; owned: readonly number[] }>;

/** A session reaches what a token for the whole account would, and is its person: what is shown to owners alone is shown. */
export const createPages = (deps: {
  sessions: Sessions;
  nonce: SignedIn['nonce'];
  membershipsOf: MembershipsOf;
  authUrl: string;
}): Pages => {
  const { sessions, nonce, membershipsOf } = deps;
  const root = rootOf(deps.authUrl);
  const signInAt = (path: string): string => `${root}/sign-in?${new URLSearchParams({ return_to: path }).toString()}`;
  return {
    signInAt,
    nav: (visitor) =>
      visitor === null
        ? html`<nav aria-label="Your pages"><a href="${root}/sign-in">Sign in</a></nav>`
        : accountNav(root),
    visitorOf: async (request) => {
      const session = await sessions.find(request);
      if (session === null) return null;
      const { stores, owned } = await membershipsOf(session.userId);
      const { userId } = session;
      const nobody = { clientId: null, publicClientId: null, grantId: null };
      return {
        principal: { userId, ...nobody, scope: 'user_full_access', stores, owned },
        nonceOf: (bound) => nonce(session, bound),
        isNonce: (given, bound) => isFormNonce(given, nonce(session, bound)),
      };
    },
  };
};
