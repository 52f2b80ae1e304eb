/** The pages of a signed-in user's own apps: /account/clients and everything below it. */
import type { FormHandlers } from '#identity/accounts/page-kit.ts';
import { secretCreated } from '#identity/accounts/account-mails.ts';
import type { People } from '#identity/accounts/people.ts';
import type { Session } from '#identity/accounts/sessions.ts';
import type { Sql } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { invalid, Problem, type Fault } from '#core/problem.ts';
import { inAvailable, type EachDatabase } from '#shards/map.ts';
import { badge } from '#hypermedia/html/property-values.ts';
import type { Tone } from '#hypermedia/html/words.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import {
  errorsOf,
  listErrors,
  readAppWebhooks,
  type AppWebhook,
  WEBHOOKS_READ_MAX,
  type Errors,
} from '../webhooks-of-apps-sql.ts';
import type { AppsDeps, RevocationEffects } from '../grants.ts';
import { addressOfInstalls } from './client-document.ts';
import { listClientsOf, usageOf, type Client } from './clients-sql.ts';
import { listAccessible } from './client-lists-sql.ts';
import {
  changeClient,
  changeFaults,
  endOlderSecret,
  removeClient,
  replaceWebhookKey,
  rotateSecret,
  secretsOf,
} from './client-change.ts';
import { clientPage, deletePage, secretPage } from './own-client-page.ts';
import { clientActorOf, clientIdOf, labelOf, ownClientOf, pathOf, readChange } from './client-form.ts';
import { parseSettings, partOf, type ClientPart } from './client-fields.ts';
import type { AppWebhooks, KeyChange } from './clients.ts';
import { removeLogo, setLogo } from './logo.ts';
import { createNewClient, createSandboxForm, listPage, sandboxCard } from './own-clients-list.ts';

type Handle = (request: RawRequest, session: Session, client: Client) => Promise<RawResponse>;
const SEARCH_LENGTH_MAX = 100;

type Shown = { status: number; values?: ClientPart; baseHash?: string; faults?: readonly Fault[]; alert?: string };

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
async function webhooksOf(sql: Sql, eachDatabase: EachDatabase, client: number, now: Date): Promise<AppWebhook[]> {
  const webhooks = await inAvailable(eachDatabase, (database) => readAppWebhooks(database, client, now));
  const hasAccess = await listAccessible(sql, client, webhooks);
  return webhooks.filter((_, index) => hasAccess.has(index));
}

/** Reads what the page of an app shows; `values` replaces the stored settings in the form. */
async function readView(
  { sql, config }: Runtime,
  { verified }: People,
  { appWebhooks, eachDatabase }: AppsDeps,
  { request, session, client, shown }: { request: RawRequest; session: Session; client: Client; shown: Shown },
) {
  const root = rootOf(config.authUrl);
  const search = request.query.get('store')?.slice(0, SEARCH_LENGTH_MAX) ?? '';
  const [webhookKeys, progress, secrets, usage, webhooks] = await Promise.all([
    appWebhooks.keysOf(sql, client.id, request.now),
    appWebhooks.progressOf([client.id]),
    secretsOf(sql, client.id, request.now),
    usageOf(sql, client.id),
    webhooksOf(sql, eachDatabase, client.id, request.now),
  ]);
  const errors = errorsOf(await inAvailable(eachDatabase, (database) => listErrors(database, webhooks, request.now)));
  const { values = partOf(client), baseHash, faults = [], alert } = shown;
  return {
    root,
    client,
    webhookKeys,
    progress: progress.get(client.id),
    keyOverlapHours: appWebhooks.keyOverlapHours,
    secrets,
    usage,
    overlapHours: config.oauth.clientSecretOverlapHours,
    values,
    /** The hash of the settings that the form was filled from; by default the current settings. */
    baseHash,
    faults,
    alert,
    good: done.get(request.query.get('done') ?? ''),
    nonce: (form: string, ...rest: readonly string[]) => verified.nonce(session, [form, client.clientId, ...rest]),
    /** The address of the list of stores and accounts that the app has access to. */
    installsAddress: addressOfInstalls(client.clientId, config.baseUrl),
    shownWebhooks: appWebhooksCard({ root, client }, webhooks, errors, search),
  };
}
export type ClientView = Awaited<ReturnType<typeof readView>>;

/** Returns the shared frame of all handlers below /account/clients/<client_id>: finds the user's app and responds with its page. */
function createOwnClient(runtime: Runtime, people: People, deps: AppsDeps) {
  const { sql, config } = runtime;
  const { verified } = people;
  const root = rootOf(config.authUrl);

  /** Responds with the app's page. */
  const respond = async (request: RawRequest, session: Session, client: Client, shown: Shown): Promise<RawResponse> =>
    htmlAnswer(shown.status, clientPage(await readView(runtime, people, deps, { request, session, client, shown })));

  return {
    page: (handle: Handle): RawHandler =>
      verified.page(async (request, session) => handle(request, session, await ownClientOf(sql, request, session))),

    /** `more`: a field to which the nonce is also bound. */
    form: (name: string, handle: Handle, more?: string): RawHandler =>
      verified[SENSITIVE.has(name) ? 'sensitiveForm' : 'form'](
        (request) => [name, clientIdOf(request), ...(more === undefined ? [] : [request.form.get(more) ?? ''])],
        async (request, session) => handle(request, session, await ownClientOf(sql, request, session)),
      ),

    respond,

    /** Shows the message of a 409 on the app's page; `values` are those of the form that was sent. */
    onConflict:
      (handle: Handle, values?: (form: URLSearchParams, client: Client) => ClientPart): Handle =>
      async (request, session, client) => {
        try {
          return await handle(request, session, client);
        } catch (error) {
          if (!(error instanceof Problem) || error.status !== 409) throw error;
          const shown = { status: 409, alert: error.message, ...(values && { values: values(request.form, client) }) };
          return respond(request, session, client, shown);
        }
      },

    redirectTo: (client: Client, what: 'saved' | 'ended' | 'key-added' | 'key-replaced'): RawResponse =>
      redirectAnswer(`${pathOf(root, client.clientId)}?done=${what}`),
  };
}

type OwnClient = ReturnType<typeof createOwnClient>;

const HOUR_MS = 3_600_000;

/** Saves the settings. Rejected input, or input that conflicts with a change in another tab, stays in the form. */
const createChange = (sql: Sql, appWebhooks: AppWebhooks, { respond, redirectTo, onConflict }: OwnClient): Handle =>
  onConflict(async (request, session, client) => {
    const values = readChange(request.form, client);
    const baseHash = request.form.get('saw') ?? '';
    const change = parseSettings(values);
    const faults = await changeFaults(appWebhooks, client, change, { labelOf, asker: `user ${session.userId}` });
    if (faults.length > 0) return respond(request, session, client, { status: 422, values, baseHash, faults });
    await changeClient({ sql, appWebhooks }, client, change, { ...clientActorOf(request, session), baseHash });
    return redirectTo(client, 'saved');
  }, readChange);

/** Replaces the key of the webhook that the app declares. */
const createReplaceKey = (sql: Sql, appWebhooks: AppWebhooks, { redirectTo, onConflict }: OwnClient): Handle =>
  onConflict(async (request, session, client) => {
    const start: KeyChange = request.form.get('at_once') === null ? 'begin' : 'at_once';
    const change = request.form.get('change') === 'finish' ? 'finish' : start;
    await replaceWebhookKey({ sql, appWebhooks }, client, change, clientActorOf(request, session));
    return redirectTo(client, change === 'begin' ? 'key-added' : 'key-replaced');
  });

function createRemove(runtime: Runtime, people: People, effects: RevocationEffects, own: OwnClient): FormHandlers {
  const { page, form } = own;
  const root = rootOf(runtime.config.authUrl);
  const afterwards = (): RawResponse => redirectAnswer(`${root}/account/clients?done=deleted`);
  const submit = form('delete client', async (request, session, client) => {
    await removeClient(runtime.sql, effects, client.clientId, clientActorOf(request, session));
    return afterwards();
  });
  return {
    show: page(async (_request, session, client) => {
      const nonce = people.verified.nonce(session, ['delete client', client.clientId]);
      return htmlAnswer(200, deletePage({ root, client, nonce }));
    }),
    submit: (request) =>
      submit(request).catch((error: unknown) => {
        // The second click: the nonce was right, and the app is gone already.
        if (error instanceof Problem && error.status === 404) return afterwards();
        throw error;
      }),
  };
}

export function createOwnClients(runtime: Runtime, people: People, deps: AppsDeps) {
  const { sql, config } = runtime;
  const { verified, securityMails } = people;
  const { effects, memberEffects, appWebhooks } = deps;
  const { clientSecretOverlapHours: overlapHours } = config.oauth;
  const root = rootOf(config.authUrl);
  const own = createOwnClient(runtime, people, deps);
  const { page, form, respond, redirectTo, onConflict } = own;
  const blank = createNewClient(runtime, people, appWebhooks);

  const rotate = onConflict(async (request, session, client) => {
    const isAtOnce = request.form.get('at_once') !== null;
    const replacing = request.form.get('replacing') ?? '';
    const { clientId } = client;
    const rotation = { clientId, overlapHours: isAtOnce ? 0 : overlapHours, replacing };
    const secret = await rotateSecret(sql, rotation, clientActorOf(request, session));
    const olderUntil = isAtOnce ? null : new Date(request.now.getTime() + overlapHours * HOUR_MS);
    const user = { id: session.userId, email: session.email };
    securityMails?.send(request, user, secretCreated(client, olderUntil));
    const note = isAtOnce
      ? 'All older secrets have expired.'
      : `The previous secret stays valid for ${overlapHours} hours.`;
    return htmlAnswer(200, secretPage({ root, title: 'Secret created', clientId, secret, note }));
  });

  const upload =
    (file: Buffer): Handle =>
    async (request, session, client) => {
      const fault = await setLogo(sql, client, file, clientActorOf(request, session));
      return fault === undefined
        ? redirectTo(client, 'saved')
        : respond(request, session, client, { status: 422, faults: [fault] });
    };

  return {
    list: verified.page(async ({ query }, session) => {
      const [clients, sandbox] = await Promise.all([
        listClientsOf(sql, session.userId),
        sandboxCard(runtime, people, session),
      ]);
      return htmlAnswer(200, listPage({ root, clients, isOneDeleted: query.get('done') === 'deleted', sandbox }));
    }),
    sandbox: createSandboxForm(runtime, people, memberEffects),
    blank: blank.show,
    create: blank.submit,
    show: page((request, session, client) => respond(request, session, client, { status: 200 })),
    change: form('change client', createChange(sql, appWebhooks, own)),
    rotate: form('rotate secret', rotate, 'replacing'),
    endOlder: form('end older secret', async (request, session, client) => {
      await endOlderSecret(sql, client.clientId, clientActorOf(request, session));
      return redirectTo(client, 'ended');
    }),
    replaceKey: form('replace webhook key', createReplaceKey(sql, appWebhooks, own)),
    // The nonce is in the same body as the file, so the body is parsed before the nonce is checked, but only for the owner.
    setLogo: page(async (request) => {
      const { fields, file } = await readMultipart(request, 'logo');
      return form('set logo', upload(file))({ ...request, form: fields });
    }),
    removeLogo: form('remove logo', async (request, session, client) => {
      await removeLogo(sql, client, clientActorOf(request, session));
      return redirectTo(client, 'saved');
    }),
    remove: createRemove(runtime, people, effects, own),
  };
}

/** Parses a form with a file (RFC 7578). Returns the text fields and the bytes of the file field `name`, empty if no file was chosen. */
async function readMultipart(
  { bytes, contentType }: RawRequest,
  name: string,
): Promise<{ fields: URLSearchParams; file: Buffer }> {
  let data: FormData;
  try {
    data = await new Response(Buffer.from(bytes), { headers: { 'Content-Type': contentType } }).formData();
  } catch {
    throw invalid({ code: 'malformed_body', message: 'The form could not be read; send it as multipart/form-data' });
  }
  const fields = new URLSearchParams();
  for (const [field, value] of data) if (typeof value === 'string') fields.append(field, value);
  const file = data.get(name);
  return { fields, file: file instanceof Blob ? Buffer.from(await file.arrayBuffer()) : Buffer.alloc(0) };
}

const STATES: Readonly<Record<AppWebhook['state'], readonly [words: string, tone: Tone]>> = {
  delivering: ['Delivering', 'fine'],
  failing: ['Failing', 'broken'],
  disabled: ['Disabled', 'plain'],
};

const SHOWN_MAX = 50;
const STATE_ORDER: readonly AppWebhook['state'][] = ['failing', 'delivering', 'disabled'];

/**
 * Returns the webhooks of the stores whose name contains the search, in any case: failing ones first, then those with the most failed
 * attempts; at most `SHOWN_MAX`.
 */
function findAppWebhooks(webhooks: readonly AppWebhook[], search: string): AppWebhook[] {
  const wanted = search.toLowerCase();
  return webhooks
    .filter(({ storeName }) => storeName.toLowerCase().includes(wanted))
    .toSorted(
      (a, b) =>
        STATE_ORDER.indexOf(a.state) - STATE_ORDER.indexOf(b.state) ||
        b.failed - a.failed ||
        a.storeName.localeCompare(b.storeName, 'en') ||
        a.id - b.id,
    )
    .slice(0, SHOWN_MAX);
}

const formatted = (count: number): string => count.toLocaleString('en');

const count = (number: number, one: string, more: string): string =>
  number === 1 ? `1 ${one}` : `${formatted(number)} ${more}`;

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, number) => sum + number, 0);

function summaryOf(webhooks: readonly AppWebhook[]): string {
  const stores = new Set(webhooks.map(({ storeId }) => storeId)).size;
  const places = `${count(webhooks.length, 'webhook', 'webhooks')} in ${count(stores, 'store', 'stores')}`;
  const isCut = webhooks.length >= WEBHOOKS_READ_MAX ? ' (no others are counted)' : '';
  const failing = webhooks.filter(({ state }) => state === 'failing').length;
  const state = failing === 0 ? 'none is failing' : `${formatted(failing)} ${failing === 1 ? 'is' : 'are'} failing`;
  const delivered = sumOf(webhooks.map((webhook) => webhook.delivered));
  const attempts = delivered + sumOf(webhooks.map(({ failed }) => failed));
  const success =
    attempts === 0
      ? 'No attempts in the last 24 hours.'
      : `${formatted(delivered)} of ${count(attempts, 'attempt', 'attempts')} in the last 24 hours succeeded.`;
  return `${places}${isCut}: ${state}. ${success}`;
}

function row({ storeName, name, state, delivered, failed }: AppWebhook, error: string | undefined): Markup {
  const [words, tone] = STATES[state];
  return html`<tr>
    <th scope="row">${storeName}</th>
    <td>${name}</td>
    <td>${badge(words, tone)}</td>
    <td class="number">${formatted(delivered)}</td>
    <td class="number">${formatted(failed)}</td>
    <td>${error !== undefined && html`<code>${error}</code>`}</td>
  </tr>`;
}

const list = (found: readonly AppWebhook[], errorOf: (webhook: AppWebhook) => string | undefined): Markup =>
  found.length === 0
    ? html`<p class="soft">No store with this name has a webhook of the app.</p>`
    : html`<section class="table" tabindex="0" aria-label="Webhooks of the app">
        <table>
          <thead>
            <tr>
              <th scope="col">Store</th>
              <th scope="col">Webhook</th>
              <th scope="col">State</th>
              <th scope="col" class="number">Delivered</th>
              <th scope="col" class="number">Failed</th>
              <th scope="col">Most frequent error</th>
            </tr>
          </thead>
          <tbody>
            ${found.map((webhook) => row(webhook, errorOf(webhook)))}
          </tbody>
        </table>
      </section>`;

/** Renders the section; `search`: the part of the name of a store that was searched for. */
function appWebhooksCard(
  { root, client }: { root: string; client: Client },
  webhooks: readonly AppWebhook[],
  { all, ofWebhook }: { all: Errors; ofWebhook: ReadonlyMap<number, string> },
  search: string,
): Markup {
  if (webhooks.length === 0)
    return html`<div class="card">
      <h2>Webhooks in all stores</h2>
      <p class="soft">The app has created no webhooks yet. Here you will see whether they work in every store.</p>
    </div>`;
  return html`<div class="card">
    <h2>Webhooks in all stores</h2>
    <p>${summaryOf(webhooks)}</p>
    ${
      all.length > 0 &&
      html`<p class="soft">
        Failed attempts: ${all.map(({ outcome, attempts }) => html`<code>${outcome}</code> ${formatted(attempts)} `)}
      </p>`
    }
    <form class="filter" method="get" action="${pathOf(root, client.clientId)}" role="search" aria-label="Stores">
      <div class="field">
        <label for="store-name">Store</label>
        <input type="text" id="store-name" name="store" value="${search}" maxlength="100" />
      </div>
      <button type="submit" class="quiet">Find</button>
      ${search !== '' && html`<a href="${pathOf(root, client.clientId)}">Show all</a>`}
    </form>
    ${list(findAppWebhooks(webhooks, search), ({ id }) => ofWebhook.get(id))}
  </div>`;
}
