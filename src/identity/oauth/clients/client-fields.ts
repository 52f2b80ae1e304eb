/** The properties of a client, and what is derived from them: schemas, settings and their parsing, and what a change changes. */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { allEvents, HIDDEN_FROM_APPS, resourceOfEvent } from '#catalog/catalog.ts';
import { EMAIL_LENGTH_MAX } from '#core/email.ts';
import { externalIdHints } from '#http/external-keys.ts';
import {
  comparisonsOf,
  defaultsOf,
  parserOf,
  schemasOf,
  writtenOf,
  type Fields,
  type PartOf,
  type SettingsOf,
} from '#http/field-table.ts';
import { ADDRESS_LENGTH_MAX } from '../redirect-uri.ts';
import { userScopes } from '../scope.ts';

export const NAME_LENGTH_MAX = 255;
export const DESCRIPTION_LENGTH_MAX = 1_000;
/** As of a webhook that a store creates: of its url, its query and its filter. */
const WEBHOOK_TEXT_LENGTH_MAX = 1_000;

const text = (maxLength: number, description: string) =>
  ({ kind: 'text', isNullable: true, input: { isClearable: true, maxLength, description } }) as const;
const address = (description: string) =>
  ({
    kind: 'url',
    isNullable: true,
    input: { isClearable: true, maxLength: ADDRESS_LENGTH_MAX, description },
  }) as const;

/** The query or the filter that the client declares for events of its stores. */
const declaredText = (description: string) =>
  ({
    kind: 'text',
    isNullable: true,
    from: 'sql',
    input: { isClearable: true, maxLength: WEBHOOK_TEXT_LENGTH_MAX, kind: 'code', description },
  }) as const;

/** Returns the events that a client may declare: all but those for the operator, and those of apps, which it gets in any case. */
export function declarableEvents(): readonly string[] {
  return allEvents().filter((event) => !HIDDEN_FROM_APPS.includes(resourceOfEvent(event) ?? ''));
}

export const clientFields = {
  client_id: { kind: 'text' },
  client_secret: { kind: 'secret', isNullable: true, from: 'code' },
  access_token: { kind: 'secret', isNullable: true, from: 'code' },
  refresh_token: { kind: 'secret', isNullable: true, from: 'code' },
  name: { kind: 'text', input: { isRequired: true, maxLength: NAME_LENGTH_MAX, description: 'The name of the app.' } },
  company: text(NAME_LENGTH_MAX, 'The company that provides the app.'),
  description: text(DESCRIPTION_LENGTH_MAX, 'What the app does for its users.'),
  contact: text(EMAIL_LENGTH_MAX, 'The e-mail address for questions about the app.'),
  redirect_uris: {
    kind: 'list',
    initial: [],
    input: { kind: 'url', description: 'The redirect addresses, exactly as the app sends them.' },
  },
  /** The scopes that the client may ask for; null for the two with full access, which representations show. */
  scopes: {
    kind: 'list',
    isNullable: true,
    choices: userScopes,
    from: 'code',
    input: {
      isClearable: true,
      description: 'The scopes that the app may request; by default store_full_access and user_full_access.',
    },
  },
  logo: { kind: 'url', isNullable: true, from: 'code', comparison: 'none' },
  /** Links on the page of the app: its homepage, privacy policy and terms (RFC 7591 §2). */
  client_uri: address('The homepage of the app, with https:.'),
  policy_uri: address('The privacy policy of the app, with https:.'),
  tos_uri: address('The terms of the app, with https:.'),
  /** Where an installation starts (OpenID Connect Core 1.0 §4). */
  initiate_login_uri: address(
    'The address at which the app starts its installation in a store (OpenID Connect Core 1.0 §4): https, or http on loopback.',
  ),
  /** The url of the webhook that the client declares for all stores; null without one. */
  webhook_url: {
    kind: 'url',
    isNullable: true,
    from: 'sql',
    input: {
      isClearable: true,
      maxLength: WEBHOOK_TEXT_LENGTH_MAX,
      description:
        'The http or https address that receives the events of the app from every store: installed, scopes changed, uninstalled, store erased. Without a query.',
    },
  },
  /** The events of its stores that the client declares besides those of the app. */
  webhook_events: {
    kind: 'list',
    choices: declarableEvents,
    initial: [],
    from: 'sql',
    input: {
      isClearable: true,
      description:
        'Events that are sent to webhook_url from every store that lets the app in with a scope for them, such as transaction/created.',
    },
  },
  webhook_query: declaredText('The shape of the bodies of webhook_events, such as zoom=items&fields=id,total_order.'),
  webhook_filter: declaredText(
    'Which of the webhook_events are sent, by the resource, such as total_order:greaterthan=100. Without it, all of them.',
  ),
  /** How many stores have followed the last change of what the client declares, and of how many; null once all have. */
  webhook_stores_followed: { kind: 'number', isNullable: true, from: 'code', comparison: 'none' },
  webhook_stores_total: { kind: 'number', isNullable: true, from: 'code', comparison: 'none' },
  webhook_key: { kind: 'secret', isNullable: true, from: 'code' },
  owner: {
    kind: 'number',
    isNullable: true,
    from: 'sql',
    column: 'owner_id',
    input: {
      isClearable: true,
      isFixed: true,
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'The id of the user who owns the app; without one, the operator owns it.',
    },
  },
  /** Has no secret (RFC 6749 §2.1). */
  is_public: {
    kind: 'boolean',
    input: { isFixed: true, description: 'The app cannot keep a secret, for example in a browser or on a phone.' },
  },
  /** Only set on the command line: a platform token, valid for two hours, must not create a permanently trusted client. */
  is_trusted: { kind: 'boolean', column: 'trusted' },
  /** False if a party other than the operator created or changed the client and the operator has not verified it since. */
  is_verified: {
    kind: 'boolean',
    input: {
      isFixed: true,
      description: 'The app has been verified, so that users see no warning. Default: true.',
    },
  },
  is_legacy: {
    kind: 'boolean',
    input: {
      isFixed: true,
      description: 'The app may omit redirect_uri at the token endpoint; requires exactly one address.',
    },
  },
  is_listed: { kind: 'boolean', input: { description: 'Anyone may read the page of the app.' } },
  rotates_refresh_tokens: {
    kind: 'boolean',
    input: { description: 'Each refresh returns a new refresh token; always true for a public client.' },
  },
  /** A public client must use PKCE, whatever the column says. */
  requires_pkce: {
    kind: 'boolean',
    filterBy: 'sql',
    input: { description: 'The app must use PKCE (RFC 7636). Default: only a public client must.' },
  },
  /** The key of the client of the platform that reads it; null for other callers. */
  external_id: {
    kind: 'text',
    isNullable: true,
    from: 'sql',
    input: { isClearable: true, ...externalIdHints('client') },
  },
  date_created: { kind: 'date' },
  date_modified: { kind: 'date' },
} as const satisfies Fields;
type ClientFields = typeof clientFields;

export const CLIENT_PROPERTIES = comparisonsOf(clientFields);

/** Returns the schemas of bodies: their choices depend on the types that the operator declares. */
export function clientSchemas() {
  return schemasOf(clientFields, {});
}

const DAYS_MAX = 730;

/** What only the request that creates a client may ask for: tokens for a store. */
const accessFields = {
  store: {
    kind: 'number',
    input: {
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description:
        'A store of which the owner is a member: the response has an access_token and a refresh_token for it, with the scopes of the app.',
    },
  },
  access_days: {
    kind: 'number',
    input: {
      minimum: 1,
      maximum: DAYS_MAX,
      description: 'After how many days the access to the store ends; without it, when it is revoked.',
    },
  },
} as const satisfies Fields;

/** The body of a request that creates a client. */
export type NewClientBody = ClientPart & { store?: number; access_days?: number };

/** Returns the schema of a body that creates a client. */
export function newClientSchema() {
  return schemasOf({ ...clientFields, ...accessFields }, {}).whole;
}

/** The properties that a request names. */
export type ClientPart = PartOf<ClientFields>;

/** The settings that the owner, the platform and the client itself may change. */
export type ClientSettings = Omit<
  SettingsOf<ClientFields>,
  'ownerId' | 'isPublic' | 'isVerified' | 'isLegacy' | 'externalId'
>;
export type SettingName = Exclude<
  keyof ClientPart,
  'owner' | 'is_public' | 'is_verified' | 'is_legacy' | 'external_id'
>;

const changeable = writtenOf(clientFields)
  .filter(({ name, input }) => input.isFixed !== true && name !== 'external_id')
  .map(({ name, member }) => ({ name, member: member as keyof ClientSettings }));

const parse = parserOf(clientFields);
const EMPTY = { ...defaultsOf(clientFields), name: '' };

/** Returns the settings of a client; those that are absent or empty get their initial values. */
export function settingsFrom(of: { [N in keyof ClientSettings]?: ClientSettings[N] | undefined }): ClientSettings {
  return Object.fromEntries(changeable.map(({ member }) => [member, of[member] || EMPTY[member]])) as ClientSettings;
}

/** Returns the settings that a body names; the others are those of `base`, by default empty. */
export function parseSettings(body: ClientPart, base: ClientSettings = EMPTY): ClientSettings {
  return settingsFrom({ ...base, ...parse(body) });
}

/** Returns the settings of a client as a body that names all of them. */
export function partOf(client: ClientSettings): ClientPart {
  return Object.fromEntries(changeable.map(({ name, member }) => [name, client[member]]));
}

/** Returns a hash of the settings, by which a form identifies the settings it was filled from. */
export function settingsHash(client: ClientSettings): string {
  const settings = changeable.map(({ member }) => client[member]);
  return createHash('sha256').update(JSON.stringify(settings)).digest('base64url');
}

/** Returns the names of the settings that differ, for the audit. */
export function changedNames(before: ClientSettings, after: ClientSettings): string[] {
  return changeable.flatMap(({ name, member }) => (isDeepStrictEqual(before[member], after[member]) ? [] : [name]));
}

/** The addresses among the settings, with the member of each. */
export const ADDRESSES = {
  client_uri: 'clientUri',
  policy_uri: 'policyUri',
  tos_uri: 'tosUri',
  initiate_login_uri: 'initiateLoginUri',
} as const;
