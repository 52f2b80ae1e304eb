/** Changes, verifies and deletes clients, and rotates their secrets, each with its audit entry in the same transaction. */
import { isDeepStrictEqual } from 'node:util';
import { transaction, type Queryable, type Sql, type Tx } from '#db/pool.ts';
import { deleteKeysOf } from '#http/external-keys-sql.ts';
import { conflict, invalid, notFound, type Fault } from '#core/problem.ts';
import { grantChanges, type RevocationEffects } from '../grants.ts';
import {
  type AppWebhooks,
  changelogActorOf,
  type ClientActor,
  COMMAND_LINE_CLIENT,
  declaredBy,
  type KeyChange,
  recordClientEntry,
} from './clients.ts';
import {
  endRetired,
  insertSecret,
  listSecrets,
  lockConfidential,
  markDeleted,
  markDeletedOf,
  markVerified,
  retireSecrets,
  storeGrantsOf,
  updateClient,
  updateSuspension,
  type Client,
  type ClientIdentity,
} from './clients-sql.ts';
import { changedNames, settingsHash, type ClientSettings } from './client-fields.ts';
import { clientFaults, type LabelOf } from './clients.ts';
import { createToken } from '../oauth-tokens.ts';

const CHANGED =
  'The settings have changed since you opened this page, and nothing was saved. Your input is shown below: save it again ' +
  'to overwrite the current settings';

/** Grants of a deleted client per statement: with 100,000 grants the process grows by at most 120 MB. */
const GRANTS_PER_PAGE = 2_000;

export type ClientChange = ClientSettings & {
  /** Absent if it stays. */
  allowsDeviceGrant?: boolean;
};

type Asked = { labelOf?: LabelOf | undefined; asker?: string | undefined };

/**
 * Returns the known faults with those of the url of a webhook; if `asker` is given, and there are none, its endpoint is asked whether it
 * agrees (`consentFaults`).
 */
export async function urlFaults(
  appWebhooks: AppWebhooks,
  known: readonly Fault[],
  url: string | null,
  { labelOf, asker }: Asked,
): Promise<Fault[]> {
  const label = labelOf?.('webhook_url');
  const faults = [...known, ...(await appWebhooks.faultsOf(url, label))];
  return faults.length > 0 || asker === undefined ? faults : appWebhooks.consentFaults(url, asker, label);
}

/** Returns the faults of a change, after those that are known. A url that stays is neither resolved nor asked again. */
export async function changeFaults(
  appWebhooks: AppWebhooks,
  client: Client,
  change: ClientChange,
  { known = [], ...asked }: Asked & { known?: readonly Fault[] } = {},
): Promise<Fault[]> {
  const { webhookUrl } = change;
  const own = [...known, ...clientFaults(change, client, asked.labelOf)];
  return webhookUrl === client.webhookUrl ? own : urlFaults(appWebhooks, own, webhookUrl, asked);
}

/**
 * Replaces the details of a client. Throws a 400 with every fault found, and a 409 `changed_meanwhile` if its settings have
 * changed since the caller read them (`baseHash`), unless they already equal the requested ones. A public client's refresh
 * tokens always rotate.
 */
export async function changeClient(
  { sql, appWebhooks }: { sql: Sql | Tx; appWebhooks: AppWebhooks },
  client: Client,
  change: ClientChange,
  actor: ClientActor & { baseHash: string },
): Promise<void> {
  const faults = await changeFaults(appWebhooks, client, change);
  if (faults.length > 0) throw invalid(...faults);
  const { userId, now } = actor;
  const redirectUris = [...new Set(change.redirectUris)];
  const after = {
    ...change,
    redirectUris,
    rotatesRefreshTokens: client.isPublic || change.rotatesRefreshTokens,
    requiresPkce: !client.isPublic && change.requiresPkce,
    allowsDeviceGrant: change.allowsDeviceGrant ?? client.allowsDeviceGrant,
  };
  const isByItself = actor.caller !== undefined && 'itself' in actor.caller;
  const run = async (tx: Tx): Promise<void> => {
    const before = await updateClient(tx, { ...client, ...after }, { userId, isByItself, now });
    if (before === undefined) throw notFound('app');
    const isDevice = before.allowsDeviceGrant !== after.allowsDeviceGrant;
    const changed = [...changedNames(before, after), ...(isDevice ? ['allows_device_grant'] : [])];
    if (changed.length === 0) return;
    if (settingsHash(before) !== actor.baseHash) throw conflict('changed_meanwhile', CHANGED);
    const declared = declaredBy(after);
    if (!isDeepStrictEqual(declaredBy(before), declared)) await appWebhooks.declare(tx, client.id, declared, now);
    const { name, scopes } = after;
    const detail = { name, changed, redirect_uris: redirectUris, ...(scopes !== null && { scopes }) };
    await recordClientEntry(tx, 'client_changed', client, { ...actor, detail });
  };
  await ('begin' in sql ? transaction(sql, run) : run(sql));
}

/** Marks a client as verified by the operator. Throws a 404 if there is no such client. */
export function verifyClient(sql: Sql, clientId: string, actor: ClientActor): Promise<void> {
  return transaction(sql, async (tx) => {
    const client = await markVerified(tx, clientId, actor.now);
    if (client === undefined) throw notFound('client');
    const detail = { name: client.name, changed: ['is_verified'] };
    await recordClientEntry(tx, 'client_changed', client, { ...actor, detail });
  });
}

/** Returns the version of a client, for conditional requests. */
export function versionOf({ dateModified }: Pick<Client, 'dateModified'>): number {
  return dateModified.getTime();
}

/**
 * Records the deletion of a client: one audit entry, and a changelog entry in each store with a grant. The client is marked
 * deleted before, so its grants cannot change concurrently. All is one transaction, which takes 0.4 s for 10,000 grants in
 * 10,000 stores and 4 s for 100,000; retention, which deletes the grants, would write the entries a minute later and without
 * the actor.
 */
async function recordDeletion(
  tx: Tx,
  { changelog, accessChanged }: RevocationEffects,
  client: ClientIdentity,
  actor: ClientActor,
): Promise<void> {
  await accessChanged(tx, { client: client.id }, actor.now);
  await deleteKeysOf(tx, { resource: 'client', ids: [client.id] });
  await recordClientEntry(tx, 'client_deleted', client, { ...actor, detail: { name: client.name } });
  const entry = { actor: changelogActorOf(actor), action: 'revoked' } as const;
  for (let after = 0; ;) {
    const page = await storeGrantsOf(tx, client.id, { after, limit: GRANTS_PER_PAGE });
    const grants = page.map((grant) => ({ ...grant, client: client.id, clientId: client.clientId, name: client.name }));
    await changelog.record(tx, grantChanges(grants, entry), actor.now);
    const last = page.at(-1);
    if (last === undefined || page.length < GRANTS_PER_PAGE) return;
    after = last.grantId;
  }
}

const BUILT_IN = 'This client is built in for the command line and cannot be deleted or suspended';

function requireNotBuiltIn(clientId: string): void {
  if (clientId === COMMAND_LINE_CLIENT) throw conflict('built_in', BUILT_IN);
}

/**
 * Suspends a client for a reason, which ends the use of its tokens and secrets with this commit in every process and disables its webhooks,
 * or ends the suspension (null). Does nothing if that is done already, or the client no longer exists. Throws a 409 `built_in` for the
 * command line's client.
 */
export function setSuspension(
  sql: Sql,
  { accessChanged }: Pick<RevocationEffects, 'accessChanged'>,
  clientId: string,
  { reason, operatorId, now }: { reason: string | null; operatorId: number; now: Date },
): Promise<void> {
  return transaction(sql, async (tx) => {
    requireNotBuiltIn(clientId);
    const client = await updateSuspension(tx, clientId, reason);
    if (client === undefined) return;
    await accessChanged(tx, { client: client.id }, now);
    const action = reason === null ? 'client_resumed' : 'client_suspended';
    const detail = { name: client.name, operator: String(operatorId), ...(reason !== null && { reason }) };
    await recordClientEntry(tx, action, client, { userId: null, origin: null, now, detail });
  });
}

/**
 * Deletes a client. All its grants and tokens end with this commit in every process. Throws a 404 if there is no such
 * client, a 409 `built_in` for the command line's client, and the error of `unmodified` for its version. Its client_id
 * cannot be reused until retention has deleted the row.
 */
export function removeClient(
  sql: Sql,
  effects: RevocationEffects,
  clientId: string,
  { unmodified, ...actor }: ClientActor & { unmodified?: (version: number) => void },
): Promise<void> {
  return transaction(sql, async (tx) => {
    requireNotBuiltIn(clientId);
    const client = await markDeleted(tx, clientId, actor.now);
    if (client === undefined) throw notFound('client');
    unmodified?.(versionOf(client));
    await recordDeletion(tx, effects, client, actor);
  });
}

/** Deletes all clients of a user, in the transaction of the user's erasure. */
export async function removeClientsOf(
  tx: Tx,
  after: RevocationEffects,
  ownerId: number,
  actor: ClientActor,
): Promise<void> {
  for (const client of await markDeletedOf(tx, ownerId, actor.now)) await recordDeletion(tx, after, client, actor);
}

const HOUR_MS = 3_600_000;
const FINGERPRINT_BYTES = 8;
/** Secrets of a client that are valid at the same time. */
const SECRETS_MAX = 5;

export type Secret = {
  /** The beginning of the secret's hash, which identifies the secret and grants no access. */
  fingerprint: string;
  dateCreated: Date;
  /** The expiry; null for the current secret. */
  dateExpires: Date | null;
};

/** Returns the valid secrets, the current one first; empty for a public client. */
export async function secretsOf(sql: Queryable, client: number, now: Date): Promise<Secret[]> {
  const rows = await listSecrets(sql, client, now);
  return rows.map(({ hash, dateCreated, dateExpires }) => {
    const fingerprint = hash.subarray(0, FINGERPRINT_BYTES).toString('hex');
    return { fingerprint, dateCreated, dateExpires };
  });
}

/** `replacing`: the fingerprint of the current secret when the caller read it. */
type Rotation = { clientId: string; overlapHours: number; replacing?: string };

/** After a double click the browser shows only the second response, so this text explains how to get a secret. */
const REPLACED_ALREADY =
  'A new secret was already created, in another tab or by a double click. If you do not have it, create another one ' +
  'below: the secret that your app uses now stays valid until its expiry';
const TOO_MANY = `At most ${SECRETS_MAX} secrets can be valid at a time: expire the older secrets first, or create the new one without an overlap`;

/**
 * Creates a new secret and returns it; only its hash is stored. The current secret expires after `overlapHours`; 0 expires
 * all others immediately. Throws a 404 if there is no such confidential client, a 409 `secret_rotated` if the secret to be
 * replaced is no longer current (of two concurrent forms, the later response could show the secret that expires first), and
 * a 409 `limit_reached` for too many valid secrets. Further rotations do not shorten an overlap, because which secret the app uses is
 * unknown.
 */
export async function rotateSecret(sql: Sql, rotation: Rotation, actor: ClientActor): Promise<string> {
  const { now } = actor;
  const secret = createToken('clientSecret');
  const until = new Date(now.getTime() + rotation.overlapHours * HOUR_MS);
  await transaction(sql, async (tx) => {
    const client = await lockConfidential(tx, rotation.clientId, now);
    if (client === undefined) throw notFound('confidential client');
    const live = await secretsOf(tx, client.id, now);
    if (rotation.replacing !== undefined && rotation.replacing !== live[0]?.fingerprint)
      throw conflict('secret_rotated', REPLACED_ALREADY);
    if (live.length >= SECRETS_MAX && until > now) throw conflict('limit_reached', TOO_MANY);
    await retireSecrets(tx, client.id, { until, now });
    await insertSecret(tx, client.id, secret.hash, now);
    const detail = { name: client.name, older_until: until.toISOString() };
    await recordClientEntry(tx, 'client_secret_rotated', client, { ...actor, detail });
  });
  return secret.value;
}

/** Expires the older secrets of a client now. Throws a 404 if there is no such confidential client. */
export function endOlderSecret(sql: Sql, clientId: string, actor: ClientActor): Promise<void> {
  return transaction(sql, async (tx) => {
    const { now } = actor;
    const client = await lockConfidential(tx, clientId, now);
    if (client === undefined) throw notFound('confidential client');
    if (!(await endRetired(tx, client.id, now))) return;
    const detail = { name: client.name, older_until: now.toISOString() };
    await recordClientEntry(tx, 'client_secret_rotated', client, { ...actor, detail });
  });
}

/** Replaces the key of the webhook that a client declares. Throws a 404 if there is none, and a 409 as `replaceKey` does. */
export function replaceWebhookKey(
  { sql, appWebhooks }: { sql: Sql; appWebhooks: AppWebhooks },
  client: Client,
  change: KeyChange,
  actor: ClientActor,
): Promise<void> {
  return transaction(sql, async (tx) => {
    await appWebhooks.replaceKey(tx, client.id, change, actor.now);
    const detail = { name: client.name, changed: ['webhook_key'] };
    await recordClientEntry(tx, 'client_changed', client, { ...actor, detail });
  });
}
