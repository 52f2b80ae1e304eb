/** Who is signed in, as somebody who looks at the resources of the API with a browser. */
import { rootOf } from '#http/root.ts';
import type { Pages } from '#http/caller.ts';
import type { Document } from '#hypermedia/document.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { accountNav } from './nav.ts';
import type { Sessions } from './sessions.ts';
import type { SignedIn } from './signed-in.ts';

/** The stores somebody is a member of, those of them that they own, and how they are called. */
export type MembershipsOf = (
  userId: number,
) => Promise<{ stores: readonly number[]; owned: readonly number[]; names: ReadonlyMap<number, string> }>;

/** The places of the store that a document is of; undefined where it is of none that `nameOf` knows. */
export type TabsOf = (document: Document, nameOf: (storeId: number) => string | undefined) => Markup | undefined;

/** A session reaches what a token for the whole account would, and is its person: what is shown to owners alone is shown. */
export const createPages = (deps: {
  sessions: Sessions;
  signedIn: Pick<SignedIn, 'nonce' | 'isNonce'>;
  membershipsOf: MembershipsOf;
  tabsOf: TabsOf;
  authUrl: string;
}): Pages => {
  const { sessions, signedIn, membershipsOf, tabsOf } = deps;
  const root = rootOf(deps.authUrl);
  const signInAt = (path: string): string => `${root}/sign-in?${new URLSearchParams({ return_to: path }).toString()}`;
  return {
    signInAt,
    strangersNav: () => html`<nav aria-label="Your pages"><a href="${root}/sign-in">Sign in</a></nav>`,
    visitorOf: async (request) => {
      const session = await sessions.find(request);
      if (session === null) return null;
      const { stores, owned, names } = await membershipsOf(session.userId);
      const { userId } = session;
      const nobody = { clientId: null, publicClientId: null, grantId: null };
      return {
        principal: { userId, ...nobody, scope: 'user_full_access', stores, owned },
        nonceOf: (bound) => signedIn.nonce(session, bound),
        isNonce: (given, bound) => signedIn.isNonce(given, session, bound),
        nav: (document) => html`${accountNav(root)}${tabsOf(document, (storeId) => names.get(storeId))}`,
      };
    },
  };
};
