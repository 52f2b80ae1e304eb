/** Client metadata (RFC 7591 §2): what is asked for, and all that is wrong with it. What we do not know is ignored (§2). */
import type { Fault } from '#core/problem.ts';
import { newClientFaults } from '../clients/clients.ts';
import type { DetailWords } from '../clients/rules.ts';

const AUTH_METHODS = ['client_secret_basic', 'client_secret_post', 'none'] as const;
const GRANT_TYPES = ['authorization_code', 'refresh_token'] as const;
const RESPONSE_TYPES = ['code'] as const;
const SCOPES = ['store_full_access', 'user_full_access'] as const;

/** What people read on the consent page of a client that has told no name. */
const UNNAMED = 'Unnamed app';

const WORDS: DetailWords = {
  name: 'client_name',
  company: 'company',
  description: 'description',
  contact: 'contacts',
  redirect_uris: 'redirect_uris',
};

export type Metadata = {
  name: string;
  redirectUris: readonly string[];
  contact: string | null;
  authMethod: (typeof AUTH_METHODS)[number];
};

type Given = Readonly<Record<string, unknown>>;

const fault = (field: string, message: string): Fault => ({
  code: 'invalid_value',
  message: `${field} ${message}`,
  field,
});

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((entry) => typeof entry === 'string');

/** Undefined where it is absent, null or wrong; what is wrong goes to `faults`. */
const readText = (given: Given, name: string, faults: Fault[]): string | undefined => {
  const value = given[name] ?? undefined;
  if (value === undefined || typeof value === 'string') return value;
  faults.push(fault(name, 'must be a string'));
  return undefined;
};

const readTexts = (given: Given, name: string, faults: Fault[]): string[] | undefined => {
  const value = given[name] ?? undefined;
  if (value === undefined || isTexts(value)) return value;
  faults.push(fault(name, 'must be an array of strings'));
  return undefined;
};

/** Of what may be asked for, everything that is asked for must be known; `needed` must be among it. */
const choiceFaults = (field: string, asked: readonly string[], known: readonly string[], needed?: string): Fault[] => {
  const unknown = asked.some((entry) => !known.includes(entry));
  const missing = needed !== undefined && !asked.includes(needed);
  if (unknown) return [fault(field, `may hold ${known.join(' and ')} only`)];
  return missing ? [fault(field, `must hold ${needed}`)] : [];
};

const readAuthMethod = (given: Given, faults: Fault[]): Metadata['authMethod'] => {
  const asked = readText(given, 'token_endpoint_auth_method', faults) ?? 'client_secret_basic';
  const method = AUTH_METHODS.find((known) => known === asked);
  if (method === undefined)
    faults.push(fault('token_endpoint_auth_method', `must be one of ${AUTH_METHODS.join(', ')}`));
  return method ?? 'client_secret_basic';
};

/** `faults` are all there are; only where there are none is `metadata` sound. */
export const readMetadata = (given: Given, now: Date): { metadata: Metadata; faults: readonly Fault[] } => {
  const faults: Fault[] = [];
  const authMethod = readAuthMethod(given, faults);
  const grantTypes = readTexts(given, 'grant_types', faults) ?? ['authorization_code'];
  faults.push(...choiceFaults('grant_types', grantTypes, GRANT_TYPES, 'authorization_code'));
  const responseTypes = readTexts(given, 'response_types', faults) ?? ['code'];
  faults.push(...choiceFaults('response_types', responseTypes, RESPONSE_TYPES, 'code'));
  const scope = readText(given, 'scope', faults) ?? '';
  const scopes = scope.split(' ').filter((entry) => entry !== '');
  faults.push(...choiceFaults('scope', scopes, SCOPES));
  const metadata: Metadata = {
    name: readText(given, 'client_name', faults) || UNNAMED,
    redirectUris: readTexts(given, 'redirect_uris', faults) ?? [],
    contact: readTexts(given, 'contacts', faults)?.[0] ?? null,
    authMethod,
  };
  const refused = new Set(faults.map(({ field }) => field));
  const further = newClientFaults({ ...metadata, trusted: false, now }, authMethod === 'none', WORDS);
  // Where a member was refused by its type, what is said of the value that stands in for it is not true.
  const told = further.filter((found) => !refused.has(found.field));
  return { metadata, faults: [...faults, ...told] };
};

/** What is registered (RFC 7591 §3.2.1), beside the credentials. */
export const registered = ({ name, redirectUris, contact, authMethod }: Metadata) => ({
  client_name: name,
  redirect_uris: redirectUris,
  ...(contact === null ? {} : { contacts: [contact] }),
  token_endpoint_auth_method: authMethod,
  grant_types: GRANT_TYPES,
  response_types: RESPONSE_TYPES,
  scope: SCOPES.join(' '),
});
