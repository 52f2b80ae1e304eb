/**
 * What the pages of a user's own apps share: the lookup of the app, the frame of the page, and the settings form with its input and faults.
 */
import { originOf } from '#identity/accounts/audit.ts';
import { accountNav, choice } from '#identity/accounts/page-kit.ts';
import type { Session } from '#identity/accounts/sessions.ts';
import type { Sql } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import { html, kept, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { notFound, type Fault } from '#core/problem.ts';
import { isClientId, type NewClient } from './clients.ts';
import type { ClientActor } from './action.ts';
import { findOwnClient, type Client } from './clients-sql.ts';
import { parseSettings, settingText, type ClientSettings, type SettingName } from './client-fields.ts';
import type { LabelOf } from './clients.ts';
import { FULL_SCOPES, scopeTexts, userScopes } from '../scope.ts';
import type { AppWebhooks } from './app-webhook.ts';

export function clientIdOf({ params }: RawRequest): string {
  return params['client_id'] ?? '';
}

export function pathOf(root: string, clientId: string): string {
  return `${root}/account/clients/${clientId}`;
}

/** Returns the user's app. Throws the same 404 for another user's app and for one that does not exist. */
export async function ownClientOf(sql: Sql, request: RawRequest, session: Session): Promise<Client> {
  const clientId = clientIdOf(request);
  const client = isClientId(clientId) ? await findOwnClient(sql, clientId, session.userId) : undefined;
  if (client === undefined) throw notFound('app');
  return client;
}

export function clientActorOf(request: RawRequest, session: Session): ClientActor {
  return {
    userId: session.userId,
    origin: originOf(request),
    now: request.now,
  };
}

export function appsPage(root: string, title: string, main: Markup): string {
  return shell({ title, nav: accountNav(root, 'apps'), main });
}

type TextName = Exclude<SettingName, 'scopes' | 'is_listed' | 'rotates_refresh_tokens' | 'requires_pkce'>;

type Field = { name: TextName; label: string; hint?: string; type?: 'email'; isLong?: true; isRequired?: true };

const FIELDS: readonly Field[] = [
  { name: 'name', label: 'Name', hint: 'Shown to users when your app requests access.', isRequired: true },
  { name: 'company', label: 'Company', hint: 'The company that provides the app. Optional.' },
  { name: 'description', label: 'Description', hint: 'What it does, in a sentence or two. Optional.', isLong: true },
  { name: 'contact', label: 'Contact', hint: 'An e-mail address for questions about it. Optional.', type: 'email' },
  {
    name: 'redirect_uris',
    label: 'Redirect addresses',
    hint: 'One per line, such as https://app.example.com/callback. Optional for a program that only you use.',
    isLong: true,
  },
  {
    name: 'webhook_url',
    label: 'Address for app events',
    hint: 'Receives app/installed, app/scopes_changed, app/uninstalled and app/store_erased from every store. Without a query. If you remove it, the webhooks of the app in all stores and their key are deleted. Optional.',
  },
  {
    name: 'initiate_login_uri',
    label: 'Install address',
    hint: 'Where your app begins to ask a store for access. The install link leads here, with iss and store_id. Optional.',
  },
  { name: 'client_uri', label: 'Homepage', hint: 'Begins with https:, like the two below. Optional.' },
  { name: 'policy_uri', label: 'Privacy policy', hint: 'Optional.' },
  { name: 'tos_uri', label: 'Terms', hint: 'Optional.' },
];

/** The parts of the form, with their fields. */
const SECTIONS = {
  basics: ['name', 'company', 'description', 'contact'],
  access: ['redirect_uris'],
  events: ['webhook_url'],
  listing: ['initiate_login_uri', 'client_uri', 'policy_uri', 'tos_uri'],
} as const satisfies Record<string, readonly TextName[]>;

const inSection = (section: keyof typeof SECTIONS): readonly Field[] =>
  FIELDS.filter(({ name }) => SECTIONS[section].some((one) => one === name));

const textsOf = (textOf: (name: TextName) => string): Readonly<Record<TextName, string>> =>
  Object.fromEntries(FIELDS.map(({ name }) => [name, textOf(name)])) as Record<TextName, string>;

export type FormValues = {
  texts: Readonly<Record<TextName, string>>;
  scopes: readonly string[];
  isPublic: boolean;
  rotates: boolean;
  requiresPkce: boolean;
  isListed: boolean;
};

/** Returns the name of a field in messages: `The name`, but `Redirect addresses`. */
export const labelOf: LabelOf = (name) => {
  if (name === 'redirect_uris') return 'Redirect addresses';
  const label = FIELDS.find((field) => field.name === name)?.label ?? name;
  return `The ${label.charAt(0).toLowerCase()}${label.slice(1)}`;
};

/** A new app need not use PKCE, because the parameters that the specification documents must suffice for it. */
export function readFormValues(form: URLSearchParams): FormValues {
  return {
    texts: textsOf((name) => form.get(name) ?? ''),
    isListed: form.get('listed') !== null,
    isPublic: form.get('kind') === 'public',
    scopes: form.has('scope') ? form.getAll('scope') : FULL_SCOPES,
    rotates: form.get('rotates') !== null,
    requiresPkce: form.get('requires_pkce') !== null,
  };
}

export function formValuesOf(client: Client): FormValues {
  return {
    texts: textsOf((name) => (name === 'redirect_uris' ? client.redirectUris.join('\n') : settingText(client, name))),
    isListed: client.isListed,
    isPublic: client.isPublic,
    scopes: client.scopes ?? FULL_SCOPES,
    rotates: client.rotatesRefreshTokens,
    requiresPkce: client.requiresPkce,
  };
}

const isDefault = (scopes: readonly string[]): boolean =>
  scopes.length === FULL_SCOPES.length && FULL_SCOPES.every((scope) => scopes.includes(scope));

/**
 * Returns the values of a form for an existing app. Scopes that the operator no longer declares have no box, and stay: without them the
 * app would have no scope, and so both with full access.
 */
export function readChangedValues(form: URLSearchParams, client: Client): FormValues {
  const known = userScopes();
  const others = client.scopes?.filter((scope) => !known.includes(scope)) ?? [];
  const values = { ...readFormValues(form), isPublic: client.isPublic };
  return others.length === 0 ? values : { ...values, scopes: [...form.getAll('scope'), ...others] };
}

/** Returns the settings in the form: trims texts, and joins the lines of the description. */
export function changeOf({ texts, ...values }: FormValues): ClientSettings {
  return parseSettings({
    ...textsOf((name) => texts[name].trim()),
    description: texts.description.trim().replaceAll(/\s+/g, ' '),
    redirect_uris: texts.redirect_uris.split(/\s+/).filter((uri) => uri !== ''),
    scopes: isDefault(values.scopes) ? null : [...new Set(values.scopes)],
    is_listed: values.isListed,
    rotates_refresh_tokens: values.rotates,
    requires_pkce: values.requiresPkce,
  });
}

function fieldOf(field: Field, value: string, faults: readonly Fault[]): Markup {
  const { name, hint } = field;
  const own = faults.filter((fault) => fault.field === name);
  const ids = [...(hint === undefined ? [] : [`${name}-hint`]), ...(own.length === 0 ? [] : [`${name}-fault`])];
  const described = html`${ids.length > 0 && html`aria-describedby="${ids.join(' ')}"`}
  ${own.length > 0 && html`aria-invalid="true"`} ${field.isRequired === true && html`required`}`;
  // Browsers drop a line break right after <textarea>; without this one, a leading line break of the value would be lost.
  const input =
    field.isLong === true
      ? html`<textarea id="${name}" name="${name}" rows="3" ${described}>${'\n'}${kept(value)}</textarea>`
      : html`<input type="${field.type ?? 'text'}" id="${name}" name="${name}" value="${value}" ${described} />`;
  return html`<div class="field">
    <label for="${name}">${field.label}</label>
    ${input} ${hint !== undefined && html`<p class="soft" id="${name}-hint">${hint}</p>`}
    ${
      own.length > 0 &&
      html`<div class="fault" id="${name}-fault">${own.map(({ message }) => html`<p>${message}.</p>`)}</div>`
    }
  </div>`;
}

const fieldsOf = (section: keyof typeof SECTIONS, { texts }: FormValues, faults: readonly Fault[]): Markup =>
  html`${inSection(section).map((field) => fieldOf(field, texts[field.name], faults))}`;

/** Renders the choices of a confidential client; a public client always rotates refresh tokens and uses PKCE. */
export function confidentialFields(values: FormValues): Markup {
  return html`${choice({
    name: 'rotates',
    isChecked: values.rotates,
    label: 'Rotate refresh tokens at each use',
    hint: 'This detects stolen tokens. The app must store the new token each time.',
  })}
  ${choice({
    name: 'requires_pkce',
    isChecked: values.requiresPkce,
    label: 'Require PKCE',
    hint: 'Recommended if your app or its OAuth library sends a code_challenge. Authorization requests without one are then refused.',
  })}`;
}

function listedField(values: FormValues): Markup {
  return choice({
    name: 'listed',
    isChecked: values.isListed,
    label: 'Listed',
    hint: 'Anyone may read the page of the app, with its description, links and scopes.',
  });
}

function scopeFields(values: FormValues, faults: readonly Fault[]): Markup {
  const own = faults.filter(({ field }) => field === 'scopes');
  return html`<fieldset ${own.length > 0 && html`aria-describedby="scopes-fault"`}>
    <legend>Scopes that it may ask for</legend>
    <p class="soft">If none is checked, it may ask for the first two.</p>
    <div class="choices">
      ${[...scopeTexts()].map(([scope, about]) =>
        choice({
          name: 'scope',
          value: scope,
          isChecked: values.scopes.includes(scope),
          label: html`<code>${scope}</code>`,
          hint: about,
        }),
      )}
    </div>
    ${
      own.length > 0 &&
      html`<div class="fault" id="scopes-fault">${own.map(({ message }) => html`<p>${message}.</p>`)}</div>`
    }
  </fieldset>`;
}

/** Renders a part of the form that needs no input: folded, unless it has a value or a fault. */
const optionalPart = (title: string, isOpen: boolean, content: Markup): Markup =>
  html`<details class="fold" ${isOpen && html`open`}>
    <summary>${title}</summary>
    ${content}
  </details>`;

/** Renders the settings in their parts. `kind`: the fields that depend on where the app runs. */
export function settingFields(values: FormValues, faults: readonly Fault[], kind: Markup | false): Markup {
  const isUsed = (section: keyof typeof SECTIONS): boolean =>
    inSection(section).some(({ name }) => values.texts[name] !== '' || faults.some(({ field }) => field === name));
  return html`<h2 id="basics">Basics</h2>
    ${fieldsOf('basics', values, faults)}
    <h2 id="access">Access</h2>
    ${fieldsOf('access', values, faults)} ${scopeFields(values, faults)} ${kind}
    ${optionalPart('Events of the app', isUsed('events'), fieldsOf('events', values, faults))}
    ${optionalPart(
      'Listing: its public page, install link and homepage',
      values.isListed || isUsed('listing'),
      html`${fieldsOf('listing', values, faults)} ${listedField(values)}`,
    )}`;
}

export function refusedAlert(faults: readonly Fault[]): Markup | null {
  return faults.length === 0
    ? null
    : html`<p class="alert" role="alert">
        Nothing was saved. ${faults.length === 1 ? '1 problem' : `${faults.length} problems`} to fix below.
      </p>`;
}

/** Returns a new client with these settings, which declares a webhook if they have its url. */
export function withDeclared(
  { webhookUrl, ...settings }: ClientSettings,
  declare: AppWebhooks['declare'],
): Pick<NewClient, 'webhook'> & Omit<ClientSettings, 'webhookUrl'> {
  return { ...settings, webhook: webhookUrl === null ? null : { url: webhookUrl, declare } };
}
