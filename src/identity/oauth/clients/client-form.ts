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
import type { ClientActor, LabelOf } from './clients.ts';
import { findClient, type Client } from './clients-sql.ts';
import type { ClientPart, SettingName } from './client-fields.ts';
import { FULL_SCOPES, scopeTexts, userScopes } from '../scope.ts';

export function clientIdOf({ params }: RawRequest): string {
  return params['client_id'] ?? '';
}

export function pathOf(root: string, clientId: string): string {
  return `${root}/account/clients/${clientId}`;
}

/** Returns the user's app. Throws the same 404 for another user's app and for one that does not exist. */
export async function ownClientOf(sql: Sql, request: RawRequest, session: Session): Promise<Client> {
  const client = await findClient(sql, clientIdOf(request));
  if (client === undefined || client.ownerId !== session.userId) throw notFound('app');
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
/** Lists that a form has as a text with one entry per line. */
const LINES = ['redirect_uris', 'webhook_events'] as const satisfies readonly TextName[];

type Field = { name: TextName; label: string; hint?: string; type?: 'email'; isLong?: true; isRequired?: true };

/** The parts of the form, with their fields. */
const SECTIONS: Readonly<Record<'basics' | 'access' | 'events' | 'listing', readonly Field[]>> = {
  basics: [
    { name: 'name', label: 'Name', hint: 'Shown to users when your app requests access.', isRequired: true },
    { name: 'company', label: 'Company', hint: 'The company that provides the app. Optional.' },
    { name: 'description', label: 'Description', hint: 'What it does, in a sentence or two. Optional.', isLong: true },
    { name: 'contact', label: 'Contact', hint: 'An e-mail address for questions about it. Optional.', type: 'email' },
  ],
  access: [
    {
      name: 'redirect_uris',
      label: 'Redirect addresses',
      hint: 'One per line, such as https://app.example.com/callback. Optional for a program that only you use.',
      isLong: true,
    },
  ],
  events: [
    {
      name: 'webhook_url',
      label: 'Address for app events',
      hint: 'Receives app/installed, app/scopes_changed, app/uninstalled and app/store_erased from every store. Without a query. If you remove it, the webhooks of the app in all stores and their key are deleted. Optional.',
    },
    {
      name: 'webhook_events',
      label: 'Events of the stores',
      hint: 'One per line, such as transaction/created. They are sent to the same address from every store that gives the app a scope for them. Optional.',
      isLong: true,
    },
    {
      name: 'webhook_query',
      label: 'Query of these events',
      hint: 'The shape of their bodies, such as zoom=items&fields=id,total_order. Optional.',
    },
    {
      name: 'webhook_filter',
      label: 'Filter of these events',
      hint: 'Which of them are sent, such as total_order:greaterthan=100. Optional.',
    },
  ],
  listing: [
    {
      name: 'initiate_login_uri',
      label: 'Install address',
      hint: 'Where your app begins to ask a store for access. The install link leads here, with iss and store_id. Optional.',
    },
    { name: 'client_uri', label: 'Homepage', hint: 'Begins with https:, like the two below. Optional.' },
    { name: 'policy_uri', label: 'Privacy policy', hint: 'Optional.' },
    { name: 'tos_uri', label: 'Terms', hint: 'Optional.' },
  ],
};

const FIELDS: readonly Field[] = Object.values(SECTIONS).flat();

/** Returns the name of a field in messages: `The name`, but `Redirect addresses`. */
export const labelOf: LabelOf = (name) => {
  if (name === 'redirect_uris') return 'Redirect addresses';
  const label = FIELDS.find((field) => field.name === name)?.label ?? name;
  return `The ${label.charAt(0).toLowerCase()}${label.slice(1)}`;
};

const isDefault = (scopes: readonly string[]): boolean =>
  scopes.length === FULL_SCOPES.length && FULL_SCOPES.every((scope) => scopes.includes(scope));

/** Returns the form as a body of the API: trims texts, and joins the lines of the description. */
export function readForm(form: URLSearchParams): ClientPart {
  const textOf = (name: TextName): string => (form.get(name) ?? '').trim();
  const scopes = form.has('scopes') ? form.getAll('scopes') : FULL_SCOPES;
  return {
    ...Object.fromEntries(FIELDS.map(({ name }) => [name, textOf(name)])),
    description: textOf('description').replaceAll(/\s+/g, ' '),
    ...Object.fromEntries(
      LINES.map((name) => [
        name,
        textOf(name)
          .split(/\s+/)
          .filter((line) => line !== ''),
      ]),
    ),
    scopes: isDefault(scopes) ? null : [...new Set(scopes)],
    is_public: form.get('is_public') === '1',
    is_listed: form.has('is_listed'),
    rotates_refresh_tokens: form.has('rotates_refresh_tokens'),
    requires_pkce: form.has('requires_pkce'),
  };
}

/**
 * Returns the body of a form for an existing app. Scopes that the operator no longer declares have no box, and stay: without them the
 * app would have no scope, and so both with full access.
 */
export function readChange(form: URLSearchParams, client: Client): ClientPart {
  const known = userScopes();
  const others = client.scopes?.filter((scope) => !known.includes(scope)) ?? [];
  const body = readForm(form);
  return others.length === 0 ? body : { ...body, scopes: [...form.getAll('scopes'), ...others] };
}

/** Returns a text of a body as its field has it: the entries of a list on lines of their own. */
function textIn(body: ClientPart, name: TextName): string {
  const value = body[name] ?? '';
  return typeof value === 'string' ? value : value.join('\n');
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

const fieldsOf = (section: keyof typeof SECTIONS, body: ClientPart, faults: readonly Fault[]): Markup =>
  html`${SECTIONS[section].map((field) => fieldOf(field, textIn(body, field.name), faults))}`;

/** Renders the choices of a confidential client; a public client always rotates refresh tokens and uses PKCE. */
export function confidentialFields(body: ClientPart): Markup {
  return html`${choice({
    name: 'rotates_refresh_tokens',
    isChecked: body.rotates_refresh_tokens === true,
    label: 'Rotate refresh tokens at each use',
    hint: 'This detects stolen tokens. The app must store the new token each time.',
  })}
  ${choice({
    name: 'requires_pkce',
    isChecked: body.requires_pkce === true,
    label: 'Require PKCE',
    hint: 'Recommended if your app or its OAuth library sends a code_challenge. Authorization requests without one are then refused.',
  })}`;
}

function scopeFields({ scopes }: ClientPart, faults: readonly Fault[]): Markup {
  const own = faults.filter(({ field }) => field === 'scopes');
  return html`<fieldset ${own.length > 0 && html`aria-describedby="scopes-fault"`}>
    <legend>Scopes that it may ask for</legend>
    <p class="soft">If none is checked, it may ask for the first two.</p>
    <div class="choices">
      ${[...scopeTexts()].map(([scope, about]) =>
        choice({
          name: 'scopes',
          value: scope,
          isChecked: (scopes ?? (FULL_SCOPES as readonly string[])).includes(scope),
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
export function settingFields(body: ClientPart, faults: readonly Fault[], kind: Markup | false): Markup {
  const isUsed = (section: keyof typeof SECTIONS): boolean =>
    SECTIONS[section].some(({ name }) => textIn(body, name) !== '' || faults.some(({ field }) => field === name));
  return html`<h2 id="basics">Basics</h2>
    ${fieldsOf('basics', body, faults)}
    <h2 id="access">Access</h2>
    ${fieldsOf('access', body, faults)} ${scopeFields(body, faults)} ${kind}
    ${optionalPart('Events of the app', isUsed('events'), fieldsOf('events', body, faults))}
    ${optionalPart(
      'Listing: its public page, install link and homepage',
      body.is_listed === true || isUsed('listing'),
      html`${fieldsOf('listing', body, faults)}
      ${choice({
        name: 'is_listed',
        isChecked: body.is_listed === true,
        label: 'Listed',
        hint: 'Anyone may read the page of the app, with its description, links and scopes.',
      })}`,
    )}`;
}

export function refusedAlert(faults: readonly Fault[]): Markup | null {
  return faults.length === 0
    ? null
    : html`<p class="alert" role="alert">
        Nothing was saved. ${faults.length === 1 ? '1 problem' : `${faults.length} problems`} to fix below.
      </p>`;
}
