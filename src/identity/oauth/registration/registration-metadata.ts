/** Parses and validates client metadata (RFC 7591 §2), with all faults at once. Unknown members are ignored (§2). */
import type { Fault } from '#core/problem.ts';
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

export type MetadataInput = Readonly<Record<string, unknown>>;

/** Returns the fault of a member. */
export function fault(field: string, message: string): Fault {
  return { code: 'invalid_value', message: `${field} ${message}`, field };
}

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((entry) => typeof entry === 'string');

/** Returns a string member; undefined if it is absent, null or invalid. Adds the fault of an invalid one to `faults`. */
function readText(input: MetadataInput, name: string, faults: Fault[]): string | undefined {
  const value = input[name] ?? undefined;
  if (value === undefined || typeof value === 'string') return value;
  faults.push(fault(name, 'must be a string'));
  return undefined;
}

function readTexts(input: MetadataInput, name: string, faults: Fault[]): string[] | undefined {
  const value = input[name] ?? undefined;
  if (value === undefined || isTexts(value)) return value;
  faults.push(fault(name, 'must be an array of strings'));
  return undefined;
}

function readFlag(input: MetadataInput, name: string, faults: Fault[]): boolean | undefined {
  const value = input[name] ?? undefined;
  if (value === undefined || typeof value === 'boolean') return value;
  faults.push(fault(name, 'must be true or false'));
  return undefined;
}

/** Returns a link of the page of the app; null for one that is not https, which is left out (RFC 7591 §3.2.1). */
function readLink(input: MetadataInput, name: string): string | null {
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

function readAuthMethod(input: MetadataInput, faults: Fault[]): Metadata['authMethod'] {
  const requested = readText(input, 'token_endpoint_auth_method', faults) ?? 'client_secret_basic';
  const method = AUTH_METHODS.find((supported) => supported === requested);
  if (method === undefined)
    faults.push(fault('token_endpoint_auth_method', `must be one of ${AUTH_METHODS.join(', ')}`));
  return method ?? 'client_secret_basic';
}

export type ReadMetadata = { metadata: Metadata; faults: readonly Fault[]; input: MetadataInput };

/** Returns the metadata and all faults. `metadata` is valid only if there are no faults. */
export function readMetadata(input: MetadataInput, now: Date): ReadMetadata {
  const faults: Fault[] = [];
  const authMethod = readAuthMethod(input, faults);
  const grantTypes = readTexts(input, 'grant_types', faults) ?? ['authorization_code'];
  faults.push(...choiceFaults('grant_types', grantTypes, GRANT_TYPES, 'authorization_code'));
  const responseTypes = readTexts(input, 'response_types', faults) ?? ['code'];
  faults.push(...choiceFaults('response_types', responseTypes, RESPONSE_TYPES, 'code'));
  const scopes = scopeEntries(readText(input, 'scope', faults) ?? '');
  const metadata: Metadata = {
    name: readText(input, 'client_name', faults) || UNNAMED,
    redirectUris: readTexts(input, 'redirect_uris', faults) ?? [],
    contact: readTexts(input, 'contacts', faults)?.[0] ?? null,
    scopes: scopes.length === 0 ? null : scopes,
    webhookUrl: readText(input, 'webhook_url', faults) || null,
    clientUri: readLink(input, 'client_uri'),
    policyUri: readLink(input, 'policy_uri'),
    tosUri: readLink(input, 'tos_uri'),
    initiateLoginUri: readText(input, 'initiate_login_uri', faults) || null,
    authMethod,
    allowsDeviceGrant: grantTypes.includes(DEVICE_GRANT),
    requiresPkce: readFlag(input, 'requires_pkce', faults) === true || authMethod === 'none',
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
  const { name, redirectUris, contact, scopes, webhookUrl, authMethod, allowsDeviceGrant, requiresPkce } = metadata;
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
    ...(webhookUrl !== null && { webhook_url: webhookUrl, webhook_key: webhookKeys?.current ?? null }),
    ...(webhookKeys !== null && webhookKeys.next !== null && { next_webhook_key: webhookKeys.next }),
  };
}
