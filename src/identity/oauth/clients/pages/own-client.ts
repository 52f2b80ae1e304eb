/** The shared frame of all handlers below /account/clients/<client_id>: finds the user's app and responds with its page. */
import type { Session } from '#identity/accounts/sessions.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawResponse, RawHandler, RawRequest } from '#http/route.ts';
import type { Fault } from '#core/problem.ts';
import { addressOfInstalls } from '../api/install.ts';
import { usageOf, type Client } from '../clients-sql.ts';
import { errorsOf, listErrors, readAppWebhooks, type AppWebhook } from '../../webhooks-of-apps-sql.ts';
import { inAvailable } from '#shards/each.ts';
import { listAccessible } from '../api/installs-sql.ts';
import { secretsOf } from '../secrets/secrets.ts';
import { appWebhooksCard } from './app-webhooks.ts';
import { clientPage } from './client-page.ts';
import { formValuesOf, type FormValues } from './form.ts';
import { clientIdOf, ownClientOf, pathOf, type PagesDeps } from './page-context.ts';

export type Handle = (request: RawRequest, session: Session, client: Client) => Promise<RawResponse>;
const SEARCH_LENGTH_MAX = 100;

type Shown = { status: number; values?: FormValues; baseHash?: string; faults?: readonly Fault[]; alert?: string };

/** The messages of completed actions, by the query parameter `done` of the redirect. */
const done = new Map([
  ['saved', 'Saved.'],
  ['ended', 'Older secrets expired.'],
  ['key-added', 'Key created. Deliveries are signed with both keys until the older one expires.'],
  ['key-replaced', 'Deliveries are signed only with the new key.'],
  // After a double click the browser shows only the second response, but the secret was in the first.
  ['made', 'App created. If you have not seen its secret, create a new one below.'],
  ['made-public', 'App created.'],
]);

/** The forms that show a new secret, decide where codes are sent, or delete the app. */
const SENSITIVE: ReadonlySet<string> = new Set([
  'change client',
  'rotate secret',
  'replace webhook key',
  'delete client',
]);

/** Returns the webhooks that the app created. After the end of its access to a store the developer no longer sees them. */
async function webhooksOf(
  { sql, eachDatabase }: Pick<PagesDeps, 'sql' | 'eachDatabase'>,
  client: number,
  now: Date,
): Promise<AppWebhook[]> {
  const webhooks = await inAvailable(eachDatabase, (database) => readAppWebhooks(database, client, now));
  const hasAccess = await listAccessible(sql, client, webhooks);
  return webhooks.filter((_, index) => hasAccess.has(index));
}

export function createOwnClient(deps: PagesDeps) {
  const { sql, appWebhooks, signedIn, root, baseUrl, clientSecretOverlapHours: overlapHours } = deps;
  return {
    page: (handle: Handle): RawHandler =>
      signedIn.page(async (request, session) => handle(request, session, await ownClientOf(sql, request, session))),

    /** `more`: a field to which the nonce is also bound. */
    form: (name: string, handle: Handle, more?: string): RawHandler =>
      signedIn[SENSITIVE.has(name) ? 'sensitiveForm' : 'form'](
        (request) => [name, clientIdOf(request), ...(more === undefined ? [] : [request.form.get(more) ?? ''])],
        async (request, session) => handle(request, session, await ownClientOf(sql, request, session)),
      ),

    /** Responds with the app's page; `values` replaces the stored settings in the form. */
    respond: async (request: RawRequest, session: Session, client: Client, shown: Shown): Promise<RawResponse> => {
      const { status, values = formValuesOf(client), baseHash, faults = [], alert } = shown;
      const search = request.query.get('store')?.slice(0, SEARCH_LENGTH_MAX) ?? '';
      const [webhookKeys, secrets, usage, webhooks] = await Promise.all([
        appWebhooks.keysOf(sql, client.id, request.now),
        secretsOf(sql, client.id, request.now),
        usageOf(sql, client.id),
        webhooksOf(deps, client.id, request.now),
      ]);
      const nonce = (form: string, ...rest: readonly string[]) =>
        signedIn.nonce(session, [form, client.clientId, ...rest]);
      const good = done.get(request.query.get('done') ?? '');
      const errors = errorsOf(
        await inAvailable(deps.eachDatabase, (database) => listErrors(database, webhooks, request.now)),
      );
      const shownWebhooks = appWebhooksCard({ root, client }, webhooks, errors, search);
      const view = {
        root,
        client,
        webhookKeys,
        keyOverlapHours: appWebhooks.keyOverlapHours,
        secrets,
        usage,
        overlapHours,
        values,
        baseHash,
        faults,
        alert,
        good,
        nonce,
        installsAddress: addressOfInstalls(client.clientId, baseUrl),
        shownWebhooks,
      };
      return htmlAnswer(status, clientPage(view));
    },

    redirectTo: (client: Client, what: 'saved' | 'ended' | 'key-added' | 'key-replaced'): RawResponse =>
      redirectAnswer(`${pathOf(root, client.clientId)}?done=${what}`),
  };
}
