/** The pages of a signed-in user's own apps: /account/clients and everything below it. */
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawResponse } from '#http/route.ts';
import { Problem } from '#core/problem.ts';
import type { KeyChange } from '../app-webhook.ts';
import { changeClient, changeFaults, removeClient } from '../change.ts';
import { removeLogo, setLogo } from '../logo/logo.ts';
import { listClientsOf } from '../clients-sql.ts';
import { endOlderSecret, rotateSecret } from '../secrets/secrets.ts';
import { replaceWebhookKey } from '../webhook-key.ts';
import { deletePage } from './client-page.ts';
import { createNewClient } from './create.ts';
import { changeOf, readChangedValues, LABELS } from './form.ts';
import { listPage } from './list-page.ts';
import { readMultipart } from './multipart.ts';
import { createOwnClient, type Handle } from './own-client.ts';
import { createSandboxForm, sandboxCard } from './sandbox-card.ts';
import { secretPage } from './secret-page.ts';
import { clientActorOf, type PagesDeps } from './page-context.ts';

const HOUR_MS = 3_600_000;

export type OwnClients = Record<
  | 'list'
  | 'create'
  | 'blank'
  | 'show'
  | 'change'
  | 'rotate'
  | 'endOlder'
  | 'replaceKey'
  | 'setLogo'
  | 'removeLogo'
  | 'sandbox',
  RawHandler
> & { remove: Record<'show' | 'submit', RawHandler> };

/** Saves the settings. Rejected input, or input that conflicts with a change in another tab, stays in the form. */
const createChange =
  (deps: PagesDeps, { respond, redirectTo }: ReturnType<typeof createOwnClient>): Handle =>
  async (request, session, client) => {
    const values = readChangedValues(request.form, client);
    const baseHash = request.form.get('saw') ?? '';
    const change = changeOf(values);
    const ownFaults = await changeFaults(deps.appWebhooks, client, change, LABELS);
    const isAsked = ownFaults.length === 0 && change.webhookUrl !== client.webhookUrl;
    const asker = `user ${session.userId}`;
    const faults = isAsked
      ? await deps.appWebhooks.consentFaults(change.webhookUrl, asker, LABELS.webhook_url)
      : ownFaults;
    if (faults.length > 0) return respond(request, session, client, { status: 422, values, baseHash, faults });
    try {
      await changeClient(deps, client, change, { ...clientActorOf(request, session), baseHash });
      return redirectTo(client, 'saved');
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 409) throw error;
      return respond(request, session, client, { status: 409, values, alert: error.message });
    }
  };

/** Replaces the key of the webhook that the app declares. */
const createReplaceKey =
  (deps: PagesDeps, { respond, redirectTo }: ReturnType<typeof createOwnClient>): Handle =>
  async (request, session, client) => {
    const start: KeyChange = request.form.get('at_once') === null ? 'begin' : 'at_once';
    const change = request.form.get('change') === 'finish' ? 'finish' : start;
    try {
      await replaceWebhookKey(deps, client, change, clientActorOf(request, session));
      return redirectTo(client, change === 'begin' ? 'key-added' : 'key-replaced');
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 409) throw error;
      return respond(request, session, client, { status: 409, alert: error.message });
    }
  };

function createRemove(deps: PagesDeps, { page, form }: ReturnType<typeof createOwnClient>): OwnClients['remove'] {
  const { root, signedIn } = deps;
  const afterwards = (): RawResponse => redirectAnswer(`${root}/account/clients?done=deleted`);
  const submit = form('delete client', async (request, session, client) => {
    await removeClient(deps, client.clientId, clientActorOf(request, session));
    return afterwards();
  });
  return {
    show: page(async (_request, session, client) => {
      const nonce = signedIn.nonce(session, ['delete client', client.clientId]);
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

export function createOwnClients(deps: PagesDeps): OwnClients {
  const { sql, signedIn, root, securityMails, clientSecretOverlapHours: overlapHours } = deps;
  const own = createOwnClient(deps);
  const { page, form, respond, redirectTo } = own;
  const blank = createNewClient(deps);

  const change = createChange(deps, own);

  const rotate: Handle = async (request, session, client) => {
    const isAtOnce = request.form.get('at_once') !== null;
    const replacing = request.form.get('replacing') ?? '';
    const rotation = { clientId: client.clientId, overlapHours: isAtOnce ? 0 : overlapHours, replacing };
    try {
      const secret = await rotateSecret(sql, rotation, clientActorOf(request, session));
      const olderUntil = isAtOnce ? null : new Date(request.now.getTime() + overlapHours * HOUR_MS);
      const user = { id: session.userId, email: session.email };
      securityMails?.secretCreated(request, user, { clientId: client.clientId, name: client.name, olderUntil });
      const note = isAtOnce
        ? 'All older secrets have expired.'
        : `The previous secret stays valid for ${overlapHours} hours.`;
      return htmlAnswer(200, secretPage({ root, title: 'Secret created', clientId: client.clientId, secret, note }));
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 409) throw error;
      return respond(request, session, client, { status: 409, alert: error.message });
    }
  };

  const upload =
    (file: Buffer): Handle =>
    async (request, session, client) => {
      const fault = await setLogo(sql, client, file, clientActorOf(request, session));
      return fault === undefined
        ? redirectTo(client, 'saved')
        : respond(request, session, client, { status: 422, faults: [fault] });
    };

  return {
    list: signedIn.page(async ({ query }, session) => {
      const [clients, sandbox] = await Promise.all([listClientsOf(sql, session.userId), sandboxCard(deps, session)]);
      return htmlAnswer(200, listPage({ root, clients, isOneDeleted: query.get('done') === 'deleted', sandbox }));
    }),
    sandbox: createSandboxForm(deps),
    blank: blank.show,
    create: blank.submit,
    show: page((request, session, client) => respond(request, session, client, { status: 200 })),
    change: form('change client', change),
    rotate: form('rotate secret', rotate, 'replacing'),
    endOlder: form('end older secret', async (request, session, client) => {
      await endOlderSecret(sql, client.clientId, clientActorOf(request, session));
      return redirectTo(client, 'ended');
    }),
    replaceKey: form('replace webhook key', createReplaceKey(deps, own)),
    // The nonce is in the same body as the file, so the body is parsed before the nonce is checked, but only for the owner.
    setLogo: page(async (request) => {
      const { fields, file } = await readMultipart(request, 'logo');
      return form('set logo', upload(file))({ ...request, form: fields });
    }),
    removeLogo: form('remove logo', async (request, session, client) => {
      await removeLogo(sql, client, clientActorOf(request, session));
      return redirectTo(client, 'saved');
    }),
    remove: createRemove(deps, own),
  };
}
