/** Creates an app of a user: GET /account/clients/new, POST /account/clients. */
import { originOf } from '#identity/accounts/audit/audit.ts';
import type { People } from '#identity/accounts/people.ts';
import type { Session } from '#identity/accounts/sessions.ts';
import type { Sql } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import { rootOf } from '#http/root.ts';
import type { RawRequest, RawResponse } from '#http/route.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { html } from '#hypermedia/markup.ts';
import { Problem, type Fault } from '#core/problem.ts';
import { createClient, createPublicClient, newClientFaults, newClientId, type NewClient } from './clients.ts';
import type { AppWebhooks } from './app-webhook.ts';
import { withDeclared } from './client-input.ts';
import {
  appsPage,
  changeOf,
  confidentialFields,
  detailFields,
  EMPTY_FORM,
  LABELS,
  listedField,
  pathOf,
  readFormValues,
  refusedAlert,
  scopeFields,
  type FormValues,
} from './client-form.ts';
import { secretPage } from './own-client-page.ts';
import { choice, postForm, type FormHandlers } from '#identity/accounts/page-kit.ts';

type View = { clientId: string; nonce: string; values: FormValues; faults: readonly Fault[]; alert?: string };

const kindFields = (values: FormValues) =>
  html`<fieldset>
    <legend>Where does it run?</legend>
    ${choice({
      name: 'kind',
      value: 'confidential',
      isRadio: true,
      isChecked: !values.isPublic,
      label: 'On your own server',
      hint: 'The app gets a client secret, which it can keep there.',
    })}
    ${choice({
      name: 'kind',
      value: 'public',
      isRadio: true,
      isChecked: values.isPublic,
      label: "On users' devices, or in their browsers",
      hint: 'The app gets no secret. PKCE is required, and refresh tokens rotate.',
    })}
  </fieldset>`;

const newPage = (root: string, { clientId, nonce, values, faults, alert }: View): string =>
  appsPage(
    root,
    'New app',
    html`<div class="card">
      <h1>New app</h1>
      ${alert !== undefined && html`<p class="alert" role="alert">${alert}.</p>`} ${refusedAlert(faults)}
      ${postForm({
        action: `${root}/account/clients`,
        hidden: { nonce, client_id: clientId },
        fields: html`${detailFields(values, faults)} ${scopeFields(values, faults)} ${kindFields(values)}
        ${confidentialFields(values)} ${listedField(values)}`,
        submit: 'Create the app',
        cancel: { href: `${root}/account/clients` },
      })}
    </div>`,
  );

async function make(sql: Sql, client: NewClient, isPublic: boolean): Promise<string | null> {
  if (!isPublic) return (await createClient(sql, client)).client_secret;
  await createPublicClient(sql, client);
  return null;
}

/**
 * The client_id is generated when the form is shown, and the nonce is bound to it: a form submitted twice creates one app,
 * and the second response redirects to its page, which explains how to get a new secret.
 */
export function createNewClient(runtime: Runtime, people: People, appWebhooks: AppWebhooks): FormHandlers {
  const { sql, config } = runtime;
  const { authUrl, oauth } = config;
  const { verified } = people;
  const root = rootOf(authUrl);
  const nonceOf = (session: Session, clientId: string) => verified.nonce(session, ['new client', clientId]);

  const submit = async (request: RawRequest, session: Session): Promise<RawResponse> => {
    const clientId = request.form.get('client_id') ?? '';
    const values = readFormValues(request.form);
    const settings = changeOf(values);
    const { webhookUrl } = settings;
    const client: NewClient = {
      ...withDeclared(settings, appWebhooks.declare),
      clientId,
      trusted: false,
      owner: { userId: session.userId, clientsPerUser: oauth.clientsPerUser },
      isVerified: false,
      origin: originOf(request),
      now: request.now,
    };
    const view = { clientId, nonce: nonceOf(session, clientId), values };
    const ownFaults = [
      ...newClientFaults(client, values.isPublic, LABELS),
      ...(await appWebhooks.faultsOf(webhookUrl, LABELS.webhook_url)),
    ];
    const asking = () => appWebhooks.consentFaults(webhookUrl, `user ${session.userId}`, LABELS.webhook_url);
    const faults = ownFaults.length > 0 ? ownFaults : await asking();
    if (faults.length > 0) return htmlAnswer(422, newPage(root, { ...view, faults }));
    try {
      const secret = await make(sql, client, values.isPublic);
      return htmlAnswer(200, secretPage({ root, title: 'App created', clientId, secret }));
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 409) throw error;
      const made = values.isPublic ? 'made-public' : 'made';
      if (error.faults[0]?.code === 'client_id_taken') return redirectAnswer(`${pathOf(root, clientId)}?done=${made}`);
      return htmlAnswer(409, newPage(root, { ...view, faults: [], alert: error.message }));
    }
  };

  return {
    show: verified.page(async (_request, session) => {
      const clientId = newClientId();
      const view = { clientId, nonce: nonceOf(session, clientId), values: EMPTY_FORM, faults: [] };
      return htmlAnswer(200, newPage(root, view));
    }),
    submit: verified.sensitiveForm(({ form }) => ['new client', form.get('client_id') ?? ''], submit),
  };
}
