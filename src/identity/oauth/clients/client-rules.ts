/** Validates the details and the kind of a client, with all faults at once. Pure. */
import { EMAIL_LENGTH_MAX, isEmail } from '#core/email.ts';
import type { Fault } from '#core/problem.ts';
import { isLegible, isName } from '#core/text.ts';
import { whyNotInitiating, whyNotLinkable, whyNotRegistrable } from '../redirect-uri.ts';
import { userScopes } from '../scope.ts';
import {
  ADDRESSES,
  DESCRIPTION_LENGTH_MAX,
  NAME_LENGTH_MAX,
  type ClientSettings,
  type SettingName,
} from './client-fields.ts';

/** The settings that are validated here; `webhook_url` is asked of the webhooks module. */
export type ClientDetails = Omit<ClientSettings, 'webhookUrl' | 'rotatesRefreshTokens' | 'requiresPkce'>;

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

const REDIRECT_URIS_MAX = 20;

/** Returns the name of a setting in error messages: that of the API by default, others for forms and registration. */
export type LabelOf = (name: SettingName) => string;

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

function addressFaults(details: ClientDetails, labelOf: LabelOf): Fault[] {
  return Object.entries(ADDRESSES).flatMap(([field, member]) => {
    const uri = details[member];
    const whyNot = member === 'initiateLoginUri' ? whyNotInitiating : whyNotLinkable;
    const reason = uri === null ? undefined : whyNot(uri);
    const message = `${labelOf(field as keyof typeof ADDRESSES)} ${reason}`;
    return reason === undefined ? [] : [{ code: 'invalid_value', message, field }];
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
export function clientFaults(details: ClientDetails, kind: ClientKind, labelOf: LabelOf = (name) => name): Fault[] {
  const { name, company, description, contact, redirectUris } = details;
  const faults: Fault[] = [];
  const require = (holds: boolean, field: SettingName, message: string): void => {
    if (!holds) faults.push({ code: 'invalid_value', message: `${labelOf(field)} ${message}`, field });
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
    ...redirectUriFaults(redirectUris, kind, labelOf('redirect_uris')),
    ...addressFaults(details, labelOf),
    ...scopeFaults(details.scopes, kind.scopes ?? [], labelOf('scopes')),
    ...kindFaults(kind, redirectUris),
  ];
}
