/** Parses and validates client metadata (RFC 7591 §2), with all faults at once. Unknown members are ignored (§2). */
import { Type, type Static } from 'typebox';
import { createValidator } from '#http/bodies/validate.ts';
import { invalidValue, type Fault } from '#core/problem.ts';
import type { Client } from '../clients/clients-sql.ts';
import { type AppKeys, newClientFaults } from '../clients/clients.ts';
import { DEVICE_GRANT } from '../token-endpoint.ts';
import { ADDRESSES, type ClientSettings, type SettingName } from '../clients/client-fields.ts';
import type { LabelOf } from '../clients/clients.ts';
import { whyNotLinkable } from '../redirect-uri.ts';
import { FULL_SCOPES, scopeEntries } from '../scope.ts';

const AUTH_METHODS = ['client_secret_basic', 'client_secret_post', 'none'] as const;
/** All clients may use the first two; the last one only those that registered for it. */
const GRANT_TYPES = ['authorization_code', 'refresh_token', DEVICE_GRANT] as const;
const RESPONSE_TYPES = ['code'] as const;

/** The name on the consent page of a client registered without one. */
const UNNAMED = 'Unnamed app';

/** The names of settings that differ in the protocol. */
const NAMES: Partial<Record<SettingName, string>> = { name: 'client_name', contact: 'contacts', scopes: 'scope' };
const labelOf: LabelOf = (name) => NAMES[name] ?? name;

/** What a registration can set; `requiresPkce`, an extension, is always true for public clients. */
export type Metadata = Omit<ClientSettings, 'company' | 'description' | 'isListed' | 'rotatesRefreshTokens'> & {
  authMethod: (typeof AUTH_METHODS)[number];
  allowsDeviceGrant: boolean;
};

const text = (description: string) => Type.Optional(Type.String({ description }));
const texts = (description: string) => Type.Optional(Type.Array(Type.String(), { description }));

/** Links of the page of the app. One that is not https is left out of the registration (RFC 7591 §3.2.1). */
const LINKS = {
  client_uri: text('The homepage of the app, with https.'),
  policy_uri: text('The privacy policy of the app, with https.'),
  tos_uri: text('The terms of the app, with https.'),
};

const members = Type.Object({
  client_name: text('The name shown on the consent page.'),
  redirect_uris: texts('The allowed redirect addresses.'),
  contacts: texts('Contact addresses; only the first is stored.'),
  scope: text('The scopes that the client may request; by default store_full_access and user_full_access.'),
  grant_types: texts('With the device grant, the client may connect devices (RFC 8628).'),
  response_types: texts('Only code.'),
  token_endpoint_auth_method: Type.Optional(
    Type.Unsafe<(typeof AUTH_METHODS)[number]>({
      enum: AUTH_METHODS,
      description: 'none creates a public client, which uses PKCE.',
    }),
  ),
  requires_pkce: Type.Optional(
    Type.Boolean({ description: 'The client must use PKCE (RFC 7636); a public client always must.' }),
  ),
  initiate_login_uri: text('The address at which the app starts its installation in a store.'),
  webhook_url: text('The address that receives the events of the app from every store.'),
  webhook_events: texts('Events of the stores that are sent to webhook_url, too, such as transaction/created.'),
  webhook_query: text('The shape of the bodies of webhook_events.'),
  webhook_filter: text('Which of the webhook_events are sent, by the resource.'),
});

/** The metadata that a client may send; others are ignored. */
export const metadataSchema = Type.Object({ ...members.properties, ...LINKS });

const check = createValidator(members);

export type MetadataInput = Readonly<Record<string, unknown>>;

/** Returns the fault of a member. */
export function fault(field: string, message: string): Fault {
  return invalidValue(field, `${field} ${message}`);
}

/** Returns the valid members, and the faults of the others; null counts as absent. */
function readMembers(input: MetadataInput): { sent: Static<typeof members>; faults: Fault[] } {
  const given = Object.entries(input).filter(
    ([name, value]) => value !== null && Object.hasOwn(members.properties, name),
  );
  const { faults, sound } = check(Object.fromEntries(given));
  // The fault of an entry is that of its list.
  return {
    sent: sound,
    faults: faults.map(({ field = '', message }) => invalidValue(field.split('.', 1)[0] ?? '', message)),
  };
}

function readLink(input: MetadataInput, name: keyof typeof LINKS): string | null {
  const uri = input[name];
  return typeof uri === 'string' && whyNotLinkable(uri) === undefined ? uri : null;
}

/** Returns a fault if an entry is not supported, or if `required` is missing. */
function choiceFaults(
  field: string,
  entries: readonly string[],
  supported: readonly string[],
  required?: string,
): Fault[] {
  const isUnsupported = entries.some((entry) => !supported.includes(entry));
  const isMissing = required !== undefined && !entries.includes(required);
  if (isUnsupported) return [fault(field, `may hold ${supported.join(' and ')} only`)];
  return isMissing ? [fault(field, `must hold ${required}`)] : [];
}

export type ReadMetadata = { metadata: Metadata; faults: readonly Fault[]; input: MetadataInput };

/** Returns the metadata and all faults. `metadata` is valid only if there are no faults. */
export function readMetadata(input: MetadataInput, now: Date): ReadMetadata {
  const { sent, faults } = readMembers(input);
  const {
    token_endpoint_auth_method: authMethod = 'client_secret_basic',
    grant_types: grantTypes = ['authorization_code'],
    response_types: responseTypes = ['code'],
  } = sent;
  faults.push(
    ...choiceFaults('grant_types', grantTypes, GRANT_TYPES, 'authorization_code'),
    ...choiceFaults('response_types', responseTypes, RESPONSE_TYPES, 'code'),
  );
  const scopes = scopeEntries(sent.scope ?? '');
  const metadata: Metadata = {
    name: sent.client_name || UNNAMED,
    redirectUris: sent.redirect_uris ?? [],
    contact: sent.contacts?.[0] ?? null,
    scopes: scopes.length === 0 ? null : scopes,
    webhookUrl: sent.webhook_url || null,
    webhookEvents: sent.webhook_events ?? [],
    webhookQuery: sent.webhook_query || null,
    webhookFilter: sent.webhook_filter || null,
    clientUri: readLink(input, 'client_uri'),
    policyUri: readLink(input, 'policy_uri'),
    tosUri: readLink(input, 'tos_uri'),
    initiateLoginUri: sent.initiate_login_uri || null,
    authMethod,
    allowsDeviceGrant: grantTypes.includes(DEVICE_GRANT),
    requiresPkce: sent.requires_pkce === true || authMethod === 'none',
  };
  const invalidFields = new Set(faults.map(({ field }) => field));
  const clientFaults = newClientFaults({ ...metadata, isPublic: authMethod === 'none', trusted: false, now }, labelOf);
  // The faults of a default that replaces an invalid member do not apply to the input.
  const applicable = clientFaults.filter((found) => !invalidFields.has(found.field));
  return { metadata, faults: [...faults, ...applicable], input };
}

/** Returns the metadata of a client. Both methods with a secret are accepted, so the method of registration is not stored. */
export function metadataOfClient(client: Client): Metadata {
  const { isPublic, requiresPkce } = client;
  return {
    ...client,
    authMethod: isPublic ? 'none' : 'client_secret_basic',
    requiresPkce: requiresPkce || isPublic,
  };
}

/** Returns the registered metadata for the response (RFC 7591 §3.2.1), without the credentials of the client. */
export function registered(metadata: Metadata, webhookKeys: AppKeys | null) {
  const { name, redirectUris, contact, scopes, authMethod, allowsDeviceGrant, requiresPkce } = metadata;
  const { webhookUrl, webhookEvents, webhookQuery, webhookFilter } = metadata;
  const registeredAddresses = Object.entries(ADDRESSES).flatMap(([member, setting]) => {
    const address = metadata[setting];
    return address === null ? [] : [[member, address] as const];
  });
  return {
    ...Object.fromEntries(registeredAddresses),
    client_name: name,
    redirect_uris: redirectUris,
    ...(contact === null ? {} : { contacts: [contact] }),
    token_endpoint_auth_method: authMethod,
    grant_types: GRANT_TYPES.filter((type) => type !== DEVICE_GRANT || allowsDeviceGrant),
    response_types: RESPONSE_TYPES,
    scope: (scopes ?? FULL_SCOPES).join(' '),
    requires_pkce: requiresPkce,
    ...(webhookUrl !== null && {
      webhook_url: webhookUrl,
      webhook_key: webhookKeys?.current ?? null,
      ...(webhookEvents.length > 0 && { webhook_events: webhookEvents }),
      ...(webhookQuery !== null && { webhook_query: webhookQuery }),
      ...(webhookFilter !== null && { webhook_filter: webhookFilter }),
    }),
    ...(webhookKeys !== null && webhookKeys.next !== null && { next_webhook_key: webhookKeys.next }),
  };
}
