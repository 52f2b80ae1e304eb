/** OAuth clients: the apps that ask for access, and the platform itself. How one comes to be. */
import { randomBytes } from 'node:crypto';
import type { Origin } from '#identity/accounts/audit/audit.ts';
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import { invalid, Problem, type Fault } from '#core/problem.ts';
import { recordClientEntry, type Caller } from './action.ts';
import { countClientsOf, insertClient, lockOwner } from './clients-sql.ts';
import { clientFaults, type ClientDetails, type ClientKind, type DetailWords } from './rules.ts';
import { createToken, type CreatedToken } from '../tokens.ts';

export type NewClient = {
  name: string;
  company?: string | null | undefined;
  description?: string | null | undefined;
  /** An e-mail address. */
  contact?: string | null | undefined;
  redirectUris: readonly string[];
  /** May use client_credentials with the scope platform; needs no redirect address, and has no owner. */
  trusted: boolean;
  /** Whose app it is, and how many a person may have; absent where the operator makes it. */
  owner?: { userId: number; clientsPerUser: number } | undefined;
  /** False where nobody has looked at it. True where absent. */
  isVerified?: boolean | undefined;
  /** Deleted then if nobody has let it in, unless the operator verifies it before; absent where it stays. */
  unusedUntil?: Date | undefined;
  /** Of a public client they always rotate. */
  rotatesRefreshTokens?: boolean | undefined;
  /** May leave redirect_uri out at the token endpoint; needs exactly one. */
  isLegacy?: boolean | undefined;
  /** For an id that must be known before; random where absent. */
  clientId?: string | undefined;
  /** The program that makes it; absent where a person, the operator or a stranger does. */
  caller?: Caller | undefined;
  /** Where it was made from; null or absent where that was this machine. */
  origin?: Origin | null | undefined;
  now: Date;
};

const CLIENT_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** Whether the text can be a client_id; whatever else comes in a request never reaches a statement. */
export const isClientId = (text: string): boolean => CLIENT_ID.test(text);

export const newClientId = (): string => randomBytes(12).toString('hex');

const detailsOf = (client: NewClient): ClientDetails => ({
  name: client.name,
  company: client.company || null,
  description: client.description || null,
  contact: client.contact || null,
  redirectUris: [...new Set(client.redirectUris)],
});

const kindOf = ({ trusted, isLegacy, owner }: NewClient, isPublic: boolean): ClientKind => ({
  isPublic,
  trusted,
  isLegacy: isLegacy === true,
  ownerId: owner?.userId ?? null,
});

/** Everything that keeps a client from being made, but for a `clientId` that is taken. */
export const newClientFaults = (client: NewClient, isPublic: boolean, words?: DetailWords): Fault[] => {
  const message = 'client_id must be 1 to 64 letters, digits, hyphens and underscores';
  const isId = client.clientId === undefined || isClientId(client.clientId);
  return [
    ...(isId ? [] : [{ code: 'invalid_value', message, field: 'client_id' }]),
    ...clientFaults(detailsOf(client), kindOf(client, isPublic), words),
  ];
};

/** Exact, because those who make clients for one person wait in line. */
const requireRoom = async (tx: Tx, { owner }: NewClient): Promise<void> => {
  if (owner === undefined) return;
  if (!(await lockOwner(tx, owner.userId)))
    throw invalid({ code: 'invalid_value', message: 'owner must be the id of a user', field: 'owner' });
  if ((await countClientsOf(tx, owner.userId)) < owner.clientsPerUser) return;
  const message = `A person has at most ${owner.clientsPerUser} apps; delete one first`;
  throw new Problem(409, { code: 'limit_reached', message });
};

const add = async (tx: Tx, client: NewClient, secret: CreatedToken | null): Promise<string> => {
  const { clientId = newClientId(), caller, origin = null, now } = client;
  const isPublic = secret === null;
  await requireRoom(tx, client);
  const details = detailsOf(client);
  const kind = kindOf(client, isPublic);
  const id = await insertClient(tx, {
    clientId,
    ...details,
    ...kind,
    isVerified: client.isVerified !== false,
    unusedUntil: client.unusedUntil ?? null,
    rotatesRefreshTokens: isPublic || client.rotatesRefreshTokens === true,
    secretHash: secret?.hash ?? null,
    now,
  });
  if (id === undefined) {
    const message = 'Another client has this client_id';
    throw new Problem(409, { code: 'client_id_taken', message, field: 'client_id' });
  }
  const detail = { name: details.name, redirect_uris: details.redirectUris };
  const made = { id, clientId, ownerId: kind.ownerId };
  await recordClientEntry(tx, 'client_created', made, { userId: null, caller, origin, detail, now });
  return clientId;
};

/** In the caller's transaction where there is one, else in one of its own: no client without its line in the audit. */
const make = (sql: Sql | Tx, client: NewClient, secret: CreatedToken | null): Promise<string> => {
  const faults = newClientFaults(client, secret === null);
  if (faults.length > 0) throw invalid(...faults);
  return 'begin' in sql ? transaction(sql, (tx) => add(tx, client, secret)) : add(sql, client, secret);
};

/**
 * Registers a confidential client; the secret is in the answer and nowhere else. Throws a 400 with every fault found, or
 * where the owner does not exist, a 409 where the `clientId` is taken (`client_id_taken`) or the owner has as many
 * clients as a person may have (`limit_reached`).
 */
export const createClient = async (
  sql: Sql | Tx,
  client: NewClient,
): Promise<{ client_id: string; client_secret: string }> => {
  const secret = createToken('clientSecret');
  return { client_id: await make(sql, client, secret), client_secret: secret.value };
};

/** Registers a client without a secret (RFC 6749 §2.1): PKCE and rotation stand in for it. Throws as `createClient`. */
export const createPublicClient = async (sql: Sql | Tx, client: NewClient): Promise<{ client_id: string }> => ({
  client_id: await make(sql, client, null),
});
