/**
 * Validates and creates OAuth clients: apps that request access, trusted clients of the platform, and the built-in client of the command line.
 */
import { randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { resourceOfEvent } from '#catalog/catalog.ts';
import { payloadFilterFaults } from '#catalog/payload-filter.ts';
import { shapeFaults } from '#catalog/resource-document.ts';
import { type Action, type Origin, recordAuditEntry } from '#identity/accounts/audit.ts';
import { type Queryable, type Sql, transaction, type Tx } from '#db/pool.ts';
import { conflict, type Fault, invalid, invalidValue, Problem } from '#core/problem.ts';
import { type Client, countClientsOf, findClient, insertClient, lockOwner } from './clients-sql.ts';
import {
  ADDRESSES,
  type ClientSettings,
  declarableEvents,
  DESCRIPTION_LENGTH_MAX,
  NAME_LENGTH_MAX,
  type SettingName,
  settingsFrom,
} from './client-fields.ts';
import { createToken } from '../oauth-tokens.ts';
import { isClientId } from '../protocol-requests.ts';
import { EMAIL_LENGTH_MAX, isEmail } from '#core/email.ts';
import { isLegible, isName } from '#core/text.ts';
import { whyNotInitiating, whyNotLinkable, whyNotRegistrable } from '../redirect-uri.ts';
import { userScopes } from '../scope.ts';
import { type Actor, inPerson, OPERATOR } from '#changelog/changelog.ts';

/**
 * The program that acted: a client with a platform token (internal and public id), a registration token, or the client itself with its
 * management token (public id).
 */
export type Caller = { client: number; clientId: string } | { registration_token: string } | { itself: string };

/** Returns the caller for the internal and public client id of a principal. */
export function callerOf(client: number | null, clientId: string | null): Caller | undefined {
  return client === null || clientId === null ? undefined : { client, clientId };
}

/**
 * The acting party and its origin (null for the command line): a user by `userId`, a program by `caller`, the operator by
 * neither.
 */
export type ClientActor = { userId: number | null; caller?: Caller | undefined; origin: Origin | null; now: Date };

/**
 * Returns the actor for the changelog of a store. A registration token only creates clients, so it needs no case of its
 * own.
 */
export function changelogActorOf({ userId, caller }: ClientActor): Actor {
  if (userId !== null) return inPerson(userId);
  if (caller !== undefined && 'client' in caller) return { kind: 'platform', user: null, client: caller.clientId };
  if (caller !== undefined && 'itself' in caller) return { kind: 'app', user: null, client: caller.itself };
  return OPERATOR;
}

const callerDetail = (caller: Caller | undefined) =>
  caller !== undefined && 'client' in caller ? { by_client: caller.client } : caller;

/** Records an audit entry. An action of a program or the operator is recorded for the client's owner. */
export function recordClientEntry(
  sql: Queryable,
  action: Extract<Action, `client_${string}`>,
  client: { id: number; clientId: string; ownerId: number | null },
  actor: ClientActor & { detail?: Readonly<Record<string, string | readonly string[]>> },
): Promise<void> {
  const { userId, caller, origin, detail, now } = actor;
  return recordAuditEntry(sql, {
    action,
    userId: userId ?? client.ownerId,
    client: client.id,
    origin,
    detail: { client_id: client.clientId, ...detail, ...callerDetail(caller) },
    now,
  });
}

/** `events`: of the stores, beside those of the app; the query and the filter are those of these events. */
type Declared = { url: string; events: readonly string[]; query: string | null; filter: string | null };

/** Returns what a client declares; null without a url. */
export function declaredBy(details: ClientSettings): Declared | null {
  const { webhookUrl: url, webhookEvents: events, webhookQuery: query, webhookFilter: filter } = details;
  return url === null ? null : { url, events, query, filter };
}

/** The number of stores that have followed a change, and of all stores that follow it. */
export type Progress = { followed: number; total: number };

/** How a client declares a webhook for all stores that let it in; composed with the webhooks module. */
export type AppWebhooks = {
  /** Returns the faults of a url; `label` names it in messages. */
  faultsOf: (url: string | null, label?: string) => Promise<Fault[]>;
  /**
   * Asks the endpoint of a new url that has no other faults, if the operator requires it, and returns the fault of one that does not allow
   * deliveries; throws a 429 or 503 if it cannot be asked now. `asker`: what handshakes are counted by, an account, a client or a network.
   */
  consentFaults: (url: string | null, asker: string, label?: string) => Promise<Fault[]>;
  /**
   * Declares the webhooks of a client (its internal id), changes them, or removes them (null), in the transaction that has inserted or
   * locked the client. The first stores follow in this transaction, and the others soon afterwards.
   */
  declare: (tx: Queryable, client: number, declared: Declared | null, now: Date) => Promise<void>;
  /** Returns how many stores have followed the last change of what these clients declare; clients without one are absent. */
  progressOf: (clients: readonly number[]) => Promise<ReadonlyMap<number, Progress>>;
  /** Returns the keys that sign the deliveries; null if the client declares no webhook. */
  keysOf: (sql: Queryable, client: number, now: Date) => Promise<AppKeys | null>;
  /**
   * Replaces the key. Throws a 404 if the client declares no webhook, a 409 `rotation_under_way` for `begin` during a rotation, and a 409
   * `no_rotation` for `finish` without one.
   */
  replaceKey: (tx: Queryable, client: number, change: KeyChange, now: Date) => Promise<void>;
  /** How long the old key stays valid beside the new one during a rotation. */
  keyOverlapHours: number;
};

/** `current` is null if it cannot be decrypted. During a rotation there is a next key, and the time at which it becomes the current one. */
export type AppKeys = { current: string | null; next: string | null; rotationEndsAt: Date | null };

/** `begin` adds a key, `finish` ends the rotation early, and `at_once` replaces all keys with a new one. */
export type KeyChange = 'begin' | 'finish' | 'at_once';

/** Days until a client without a responsible user or platform is deleted if it has no grant. */
export const UNUSED_DAYS = 30;

type Optional<T> = { [N in keyof T]?: T[N] | undefined };

export type NewClient = Optional<ClientSettings> & {
  name: string;
  redirectUris: readonly string[];
  /** Has no secret (RFC 6749 §2.1), and is protected by PKCE and rotation instead. */
  isPublic?: boolean | undefined;
  /** Declares the webhooks of a client with `webhookUrl`, which was checked before. */
  declare?: AppWebhooks['declare'] | undefined;
  /** May use client_credentials with the scope platform; needs no redirect address, and has no owner. */
  trusted: boolean;
  /** The owner, and the maximum number of clients per user; absent if the operator creates the client. */
  owner?: { userId: number; clientsPerUser: number } | undefined;
  /** Default: true. */
  isVerified?: boolean | undefined;
  /** The client is deleted at this time if it has no grant and is not verified; absent if it is kept. */
  unusedUntil?: Date | undefined;
  /** May use the device authorization grant (RFC 8628). */
  allowsDeviceGrant?: boolean | undefined;
  /** The hash of the token with which the client manages its registration (RFC 7592). */
  managementTokenHash?: Buffer | undefined;
  /** May omit redirect_uri at the token endpoint; requires exactly one address. */
  isLegacy?: boolean | undefined;
  /** The id, if it must be known in advance; random by default. */
  clientId?: string | undefined;
  /** The program that creates the client; absent for a user, the operator or an anonymous registration. */
  caller?: Caller | undefined;
  /** The origin of the request; null or absent on the command line. */
  origin?: Origin | null | undefined;
  now: Date;
};

export function newClientId(): string {
  return randomBytes(12).toString('hex');
}

function detailsOf(client: NewClient): ClientSettings {
  const { redirectUris, scopes, ...settings } = settingsFrom(client);
  return {
    ...settings,
    redirectUris: [...new Set(redirectUris)],
    scopes: scopes && [...new Set(scopes)],
    webhookEvents: [...new Set(settings.webhookEvents)],
  };
}

const kindOf = ({ isPublic, trusted, isLegacy, owner }: NewClient): ClientKind => ({
  isPublic: isPublic === true,
  trusted,
  isLegacy: isLegacy === true,
  ownerId: owner?.userId ?? null,
});

/** Returns the faults of a new client, except a taken `clientId`. */
export function newClientFaults(client: NewClient, labelOf?: LabelOf): Fault[] {
  const isId = client.clientId === undefined || isClientId(client.clientId);
  return [
    ...(isId ? [] : [invalidValue('client_id', 'client_id must be 1 to 64 letters, digits, hyphens and underscores')]),
    ...clientFaults(detailsOf(client), kindOf(client), labelOf),
  ];
}

/**
 * Throws a 409 if the owner has the maximum number of clients. Exact, because the lock of the owner serializes
 * creations.
 */
async function requireBelowLimit(tx: Tx, { owner }: NewClient): Promise<void> {
  if (owner === undefined) return;
  if (!(await lockOwner(tx, owner.userId))) throw invalid(invalidValue('owner', 'owner must be the id of a user'));
  if ((await countClientsOf(tx, owner.userId)) < owner.clientsPerUser) return;
  throw conflict('limit_reached', `A user can have at most ${owner.clientsPerUser} apps; delete one first`);
}

async function add(tx: Tx, client: NewClient): Promise<Credentials> {
  const { clientId = newClientId(), caller, origin = null, now } = client;
  await requireBelowLimit(tx, client);
  const details = detailsOf(client);
  const kind = kindOf(client);
  const { isPublic } = kind;
  const secret = isPublic ? undefined : createToken('clientSecret');
  const id = await insertClient(tx, {
    ...details,
    ...kind,
    clientId,
    externalId: null,
    isVerified: client.isVerified !== false,
    unusedUntil: client.unusedUntil ?? null,
    rotatesRefreshTokens: isPublic || details.rotatesRefreshTokens,
    requiresPkce: !isPublic && details.requiresPkce,
    allowsDeviceGrant: client.allowsDeviceGrant === true,
    secretHash: secret?.hash ?? null,
    managementTokenHash: client.managementTokenHash ?? null,
    now,
  });
  if (id === undefined) {
    const message = 'Another client has this client_id';
    throw new Problem(409, { code: 'client_id_taken', message, field: 'client_id' });
  }
  const { name, redirectUris, scopes } = details;
  const declared = declaredBy(details);
  if (declared !== null) {
    if (client.declare === undefined) throw new TypeError('A client with a webhook needs a way to declare it');
    await client.declare(tx, id, declared, now);
  }
  const detail = { name, redirect_uris: redirectUris, ...(scopes !== null && { scopes }) };
  const made = { id, clientId, ownerId: kind.ownerId };
  await recordClientEntry(tx, 'client_created', made, { userId: null, caller, origin, detail, now });
  return { client_id: clientId, ...(secret && { client_secret: secret.value }) };
}

type Credentials = { client_id: string; client_secret?: string };

/**
 * Creates a client with its audit entry, in the caller's transaction, or in a new one if `sql` is not a transaction. Returns its secret, of
 * which only the hash is stored, unless it is public. Throws a 400 with every fault found or if the owner does not exist, and a 409 if the
 * `clientId` is taken (`client_id_taken`) or the owner has the maximum number of clients (`limit_reached`).
 */
export function createClient(sql: Sql | Tx, client: NewClient & { isPublic?: false }): Promise<Required<Credentials>>;
export function createClient(sql: Sql | Tx, client: NewClient): Promise<Credentials>;
export async function createClient(sql: Sql | Tx, client: NewClient): Promise<Credentials> {
  const faults = newClientFaults(client);
  if (faults.length > 0) throw invalid(...faults);
  return 'begin' in sql ? transaction(sql, (tx) => add(tx, client)) : add(sql, client);
}

/** The client of the command line has the same id in every installation, so that `halcyon login` needs no registration. */
export const COMMAND_LINE_CLIENT = 'halcyon-cli';

/**
 * Creates the client if it is missing. A 409 is ignored: another process that starts concurrently has created it, or
 * retention has not yet deleted an old row with its id.
 */
export async function provideCommandLineClient(sql: Sql, now: Date): Promise<void> {
  if ((await findClient(sql, COMMAND_LINE_CLIENT)) !== undefined) return;
  try {
    await createClient(sql, {
      isPublic: true,
      clientId: COMMAND_LINE_CLIENT,
      name: 'Halcyon command line',
      description:
        'The halcyon command in a terminal on your computer. Allow it only if you have just typed halcyon login.',
      // The command listens on any free port (RFC 8252 §7.3).
      redirectUris: ['http://127.0.0.1/callback', 'http://[::1]/callback'],
      trusted: false,
      allowsDeviceGrant: true,
      now,
    });
  } catch (error) {
    if (!(error instanceof Problem && error.status === 409)) throw error;
  }
}

/** What never changes of a client, and the scopes and declared events that it has already. */
type ClientKind = Pick<Client, 'isPublic' | 'trusted' | 'isLegacy' | 'ownerId'> &
  Partial<Pick<Client, 'scopes' | 'webhookEvents' | 'webhookQuery' | 'webhookFilter'>>;

const REDIRECT_URIS_MAX = 20;

/** Returns the name of a setting in error messages: that of the API by default, others for forms and registration. */
export type LabelOf = (name: SettingName) => string;

const readable = (maximum: number): string => `${maximum} characters, without control or invisible ones`;

const isText = (text: string | null, maximum: number): boolean =>
  text === null || (Array.from(text).length <= maximum && isLegible(text));

const redirectUriFault = (code: string, message: string): Fault => ({ code, message, field: 'redirect_uris' });

function redirectUriFaults(uris: readonly string[], { trusted, ownerId }: ClientKind, label: string): Fault[] {
  if (uris.length > REDIRECT_URIS_MAX)
    return [redirectUriFault('too_many', `${label}: at most ${REDIRECT_URIS_MAX} addresses are possible`)];
  // A program that only its owner uses needs none.
  if (uris.length === 0 && !trusted && ownerId === null)
    return [redirectUriFault('required', `${label}: at least one address is needed`)];
  return uris.flatMap((uri, index) => {
    const reason = whyNotRegistrable(uri);
    const which = uris.length === 1 ? 'the address' : `address ${index + 1}`;
    return reason === undefined ? [] : [redirectUriFault('invalid_redirect_uri', `${label}: ${which} ${reason}`)];
  });
}

function addressFaults(details: ClientSettings, labelOf: LabelOf): Fault[] {
  return Object.entries(ADDRESSES).flatMap(([field, member]) => {
    const uri = details[member];
    const whyNot = member === 'initiateLoginUri' ? whyNotInitiating : whyNotLinkable;
    const reason = uri === null ? undefined : whyNot(uri);
    const message = `${labelOf(field as keyof typeof ADDRESSES)} ${reason}`;
    return reason === undefined ? [] : [invalidValue(field, message)];
  });
}

/** `registered`: the scopes that the client has already, among which may be those of a type that the operator no longer declares. */
function scopeFaults(scopes: readonly string[] | null, registered: readonly string[], label: string): Fault[] {
  const known = userScopes();
  const unknown = scopes?.filter((scope) => !known.includes(scope) && !registered.includes(scope)) ?? [];
  if (unknown.length === 0 && scopes?.length !== 0) return [];
  return [invalidValue('scopes', `${label} must be at least one of ${known.join(', ')}`)];
}

const EVENTS_MAX = 100;

/** Returns the faults of the declared events, and of their query and filter, unless the client has just these already. */
function declarationFaults(details: ClientSettings, kind: ClientKind, labelOf: LabelOf): Fault[] {
  const { webhookUrl: url, webhookEvents: events, webhookQuery: query, webhookFilter: filter } = details;
  const faultOf = (field: SettingName, message: string, code = 'invalid_value'): Fault => ({
    code,
    message: `${labelOf(field)}: ${message}`,
    field,
  });
  if (url === null)
    return events.length === 0 ? [] : [faultOf('webhook_events', 'a webhook_url is needed, to which they are sent')];
  if (isDeepStrictEqual([events, query, filter], [kind.webhookEvents, kind.webhookQuery, kind.webhookFilter]))
    return [];
  const possible = new Set(declarableEvents());
  const types = new Set(events.map((event) => (possible.has(event) ? resourceOfEvent(event) : undefined)));
  return [
    ...(events.length > EVENTS_MAX
      ? [faultOf('webhook_events', `at most ${EVENTS_MAX} are possible`, 'too_many')]
      : []),
    ...(types.has(undefined)
      ? [faultOf('webhook_events', `possible are ${[...possible].join(', ')}`, 'unknown_event')]
      : []),
    ...[...types].flatMap((type) =>
      (type === undefined ? [] : shapeFaults(query ?? '', type)).map(({ message }) =>
        faultOf('webhook_query', `for ${type}, ${message}`),
      ),
    ),
    ...(filter === null ? [] : payloadFilterFaults(filter)).map(({ message }) => faultOf('webhook_filter', message)),
  ];
}

function kindFaults({ isPublic, trusted, isLegacy, ownerId }: ClientKind, uris: readonly string[]): Fault[] {
  const faults: Fault[] = [];
  if (trusted && ownerId !== null) {
    const message = 'owner cannot be combined with trusted: the owner could create a secret and act as the platform';
    faults.push(invalidValue('owner', message));
  }
  if (isPublic && (trusted || isLegacy)) {
    const message = 'is_public cannot be combined with trusted or legacy: a public client has no secret';
    faults.push(invalidValue('is_public', message));
  }
  if (isLegacy && uris.length !== 1) {
    const message = 'is_legacy requires exactly one redirect address: the default for an absent redirect_uri';
    faults.push(invalidValue('is_legacy', message));
  }
  return faults;
}

/** Returns all faults of a client, each with the name of its property. */
export function clientFaults(details: ClientSettings, kind: ClientKind, labelOf: LabelOf = (name) => name): Fault[] {
  const { name, company, description, contact, redirectUris } = details;
  const faults: Fault[] = [];
  const require = (holds: boolean, field: SettingName, message: string): void => {
    if (!holds) faults.push(invalidValue(field, `${labelOf(field)} ${message}`));
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
    ...declarationFaults(details, kind, labelOf),
    ...kindFaults(kind, redirectUris),
  ];
}
