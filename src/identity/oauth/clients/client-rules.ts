/** Validates the details and the kind of a client, with all faults at once. Pure. */
import { EMAIL_LENGTH_MAX, isEmail } from '#core/email.ts';
import type { Fault } from '#core/problem.ts';
import { isLegible, isName } from '#core/text.ts';
import { whyNotInitiating, whyNotLinkable, whyNotRegistrable } from '../redirect-uri.ts';
import { userScopes } from '../scope.ts';

/** The details that the owner may change; null if absent. */
export type ClientDetails = {
  name: string;
  company: string | null;
  description: string | null;
  contact: string | null;
  redirectUris: readonly string[];
  /** The scopes that the client may ask for; null for the two with full access. */
  scopes: readonly string[] | null;
  /** Links on the page of the app: its homepage, privacy policy and terms (RFC 7591 §2). */
  clientUri: string | null;
  policyUri: string | null;
  tosUri: string | null;
  /** Where an installation starts (OpenID Connect Core 1.0 §4). */
  initiateLoginUri: string | null;
  /** Anyone may read the page of the app. */
  isListed: boolean;
};

/** The properties that never change. */
export type ClientKind = {
  /** Has no secret (RFC 6749 §2.1). */
  isPublic: boolean;
  /** May use client_credentials with the scope platform; needs no redirect address. */
  trusted: boolean;
  /** May omit redirect_uri at the token endpoint. */
  isLegacy: boolean;
  /** The owner of the app; null if the operator created it. */
  ownerId: number | null;
  /** The scopes that it has already. */
  scopes?: readonly string[] | null;
};

/** The addresses among the details, with the property of each. */
export const ADDRESSES = {
  client_uri: 'clientUri',
  policy_uri: 'policyUri',
  tos_uri: 'tosUri',
  initiate_login_uri: 'initiateLoginUri',
} as const;
type AddressName = keyof typeof ADDRESSES;

export type DetailName =
  | 'name'
  | 'company'
  | 'description'
  | 'contact'
  | 'redirect_uris'
  | 'scopes'
  | 'webhook_url'
  | AddressName;

export const NAME_LENGTH_MAX = 255;
export const DESCRIPTION_LENGTH_MAX = 1_000;
const REDIRECT_URIS_MAX = 20;

/** The names of the details in error messages: the API's names by default, others for forms and registration. */
export type DetailLabels = Readonly<Record<DetailName, string>>;

const API_LABELS: DetailLabels = {
  name: 'name',
  company: 'company',
  description: 'description',
  contact: 'contact',
  redirect_uris: 'redirect_uris',
  scopes: 'scopes',
  webhook_url: 'webhook_url',
  client_uri: 'client_uri',
  policy_uri: 'policy_uri',
  tos_uri: 'tos_uri',
  initiate_login_uri: 'initiate_login_uri',
};

const readable = (maximum: number): string => `${maximum} characters, without control or invisible ones`;

const isText = (text: string | null, maximum: number): boolean =>
  text === null || (Array.from(text).length <= maximum && isLegible(text));

const redirectUriFault = (code: string, message: string): Fault => ({ code, message, field: 'redirect_uris' });

function redirectUriFaults(uris: readonly string[], { trusted }: ClientKind, label: string): Fault[] {
  if (uris.length > REDIRECT_URIS_MAX)
    return [redirectUriFault('too_many', `${label}: at most ${REDIRECT_URIS_MAX} addresses are possible`)];
  if (uris.length === 0 && !trusted) return [redirectUriFault('required', `${label}: at least one address is needed`)];
  return uris.flatMap((uri, index) => {
    const reason = whyNotRegistrable(uri);
    const which = uris.length === 1 ? 'the address' : `address ${index + 1}`;
    return reason === undefined ? [] : [redirectUriFault('invalid_redirect_uri', `${label}: ${which} ${reason}`)];
  });
}

function addressFaults(details: ClientDetails, labels: DetailLabels): Fault[] {
  return (Object.keys(ADDRESSES) as AddressName[]).flatMap((field) => {
    const uri = details[ADDRESSES[field]];
    const whyNot = field === 'initiate_login_uri' ? whyNotInitiating : whyNotLinkable;
    const reason = uri === null ? undefined : whyNot(uri);
    return reason === undefined ? [] : [{ code: 'invalid_value', message: `${labels[field]} ${reason}`, field }];
  });
}

/** `registered`: the scopes that the client has already, among which may be those of a type that the operator no longer declares. */
function scopeFaults(scopes: readonly string[] | null, registered: readonly string[], label: string): Fault[] {
  const known = userScopes();
  const unknown = scopes?.filter((scope) => !known.includes(scope) && !registered.includes(scope)) ?? [];
  if (unknown.length === 0 && scopes?.length !== 0) return [];
  const message = `${label} must be at least one of ${known.join(', ')}`;
  return [{ code: 'invalid_value', message, field: 'scopes' }];
}

function kindFaults({ isPublic, trusted, isLegacy, ownerId }: ClientKind, uris: readonly string[]): Fault[] {
  const faults: Fault[] = [];
  if (trusted && ownerId !== null) {
    const message = 'owner cannot be combined with trusted: the owner could create a secret and act as the platform';
    faults.push({ code: 'invalid_value', message, field: 'owner' });
  }
  if (isPublic && (trusted || isLegacy)) {
    const message = 'is_public cannot be combined with trusted or legacy: a public client has no secret';
    faults.push({ code: 'invalid_value', message, field: 'is_public' });
  }
  if (isLegacy && uris.length !== 1) {
    const message = 'is_legacy requires exactly one redirect address: the default for an absent redirect_uri';
    faults.push({ code: 'invalid_value', message, field: 'is_legacy' });
  }
  return faults;
}

/** Returns all faults of a client, each with the name of its property. */
export function clientFaults(details: ClientDetails, kind: ClientKind, labels = API_LABELS): Fault[] {
  const { name, company, description, contact, redirectUris } = details;
  const faults: Fault[] = [];
  const require = (holds: boolean, field: DetailName, message: string): void => {
    if (!holds) faults.push({ code: 'invalid_value', message: `${labels[field]} ${message}`, field });
  };
  const isNamed = isName(name) && isText(name, NAME_LENGTH_MAX);
  require(isNamed, 'name', `must be 1 to ${readable(NAME_LENGTH_MAX)}, with a letter or a digit`);
  require(isText(company, NAME_LENGTH_MAX), 'company', `must be at most ${readable(NAME_LENGTH_MAX)}`);
  const isDescription = isText(description, DESCRIPTION_LENGTH_MAX);
  require(isDescription, 'description', `must be at most ${readable(DESCRIPTION_LENGTH_MAX)}`);
  const isContact = contact === null || isEmail(contact);
  require(isContact, 'contact', `must be an e-mail address, at most ${EMAIL_LENGTH_MAX} characters`);
  return [
    ...faults,
    ...redirectUriFaults(redirectUris, kind, labels.redirect_uris),
    ...addressFaults(details, labels),
    ...scopeFaults(details.scopes, kind.scopes ?? [], labels.scopes),
    ...kindFaults(kind, redirectUris),
  ];
}
