/** What every address below /account/clients/<client_id> begins with and ends in: whose app it is, and its page. */
import type { Session } from '#identity/accounts/sessions.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawResponse, RawHandler, RawRequest } from '#http/route.ts';
import type { Fault } from '#core/problem.ts';
import { reachOf, type Client } from '../clients-sql.ts';
import { secretsOf } from '../secrets/secrets.ts';
import { clientPage } from './client-page.ts';
import { typedOf, type Typed } from './form.ts';
import { clientIdOf, ownClientOf, pathOf, type PagesDeps } from './visit.ts';

export type Handle = (request: RawRequest, session: Session, client: Client) => Promise<RawResponse>;
type Shown = { status: number; typed?: Typed; saw?: string; faults?: readonly Fault[]; alert?: string };

/** What was done, as the address that is come back to says it. */
const done = new Map([
  ['saved', 'Saved.'],
  ['ended', 'No older secret counts any more.'],
  // Of a double click the browser shows the second answer alone, and the secret was in the first.
  ['made', 'Your app is made. If you have not seen its secret, make a new one below.'],
  ['made-public', 'Your app is made.'],
]);

export const createOwnClient = (deps: PagesDeps) => {
  const { sql, signedIn, root, clientSecretOverlapHours: overlapHours } = deps;
  return {
    page: (handle: Handle): RawHandler =>
      signedIn.page(async (request, session) => handle(request, session, await ownClientOf(sql, request, session))),

    /** `more`: the field that the nonce stands for as well. */
    form: (name: string, handle: Handle, more?: string): RawHandler =>
      signedIn.form(
        (request) => [name, clientIdOf(request), ...(more === undefined ? [] : [request.form.get(more) ?? ''])],
        async (request, session) => handle(request, session, await ownClientOf(sql, request, session)),
      ),

    /** The app's page; `typed` stands in its settings instead of what is stored. */
    answer: async (request: RawRequest, session: Session, client: Client, shown: Shown): Promise<RawResponse> => {
      const { status, typed = typedOf(client), saw, faults = [], alert } = shown;
      const [secrets, reach] = await Promise.all([secretsOf(sql, client.id, request.now), reachOf(sql, client.id)]);
      const nonce = (form: string, ...rest: readonly string[]) =>
        signedIn.nonce(session, [form, client.clientId, ...rest]);
      const good = done.get(request.query.get('done') ?? '');
      const view = { root, client, secrets, reach, overlapHours, typed, saw, faults, alert, good, nonce };
      return htmlAnswer(status, clientPage(view));
    },

    backTo: (client: Client, what: 'saved' | 'ended'): RawResponse =>
      redirectAnswer(`${pathOf(root, client.clientId)}?done=${what}`),
  };
};
