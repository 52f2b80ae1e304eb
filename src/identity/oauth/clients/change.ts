/** What happens to a client after it was made: changed, verified, deleted. Each stands in the audit with its deed. */
import { createHash } from 'node:crypto';
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import { invalid, notFound, Problem, type Fault } from '#core/problem.ts';
import { grantChanges, type AfterGrants } from '../grant-changes.ts';
import { COMMAND_LINE_CLIENT } from './command-line.ts';
import { actorOfDoer, recordClientEntry, type Doer } from './action.ts';
import {
  markDeleted,
  markDeletedOf,
  markVerified,
  storeGrantsOf,
  updateClient,
  type Client,
  type Known,
} from './clients-sql.ts';
import { clientFaults, type ClientDetails, type DetailWords } from './rules.ts';

const CHANGED =
  'The settings were changed since you opened this page, and nothing was saved now. Below stands what you typed: save it ' +
  'again to put it in their place';

/** Of a client that is deleted, in one statement: with 100,000 in all the process grows by 120 MB at most. */
const GRANTS_AT_ONCE = 2_000;

export type ClientChange = ClientDetails & { rotatesRefreshTokens: boolean };

/** Everything that keeps a client from being changed so. */
export const changeFaults = (client: Client, change: ClientChange, words?: DetailWords): Fault[] =>
  clientFaults(change, client, words);

/** Tells these settings from others, for a form to say which it was filled from. */
export const settingsMark = (client: ClientChange): string => {
  const { name, company, description, contact, redirectUris, rotatesRefreshTokens: rotates } = client;
  const settings = JSON.stringify([name, company, description, contact, redirectUris, rotates]);
  return createHash('sha256').update(settings).digest('base64url');
};

/** The names of what differs, for the audit. */
const changesOf = (before: Client, after: ClientChange): string[] => {
  const pairs = {
    name: [before.name, after.name],
    company: [before.company, after.company],
    description: [before.description, after.description],
    contact: [before.contact, after.contact],
    redirect_uris: [before.redirectUris.join(' '), after.redirectUris.join(' ')],
    rotates_refresh_tokens: [before.rotatesRefreshTokens, after.rotatesRefreshTokens],
  };
  return Object.entries(pairs).flatMap(([name, [old, now]]) => (old === now ? [] : [name]));
};

/**
 * Gives a client these details in place of its own. Throws a 400 with every fault found, and a 409 `changed_meanwhile`
 * where its settings are neither what its caller `saw` nor what is asked for. A public client's refresh tokens go on
 * rotating whatever is asked.
 */
export const changeClient = async (
  sql: Sql,
  client: Client,
  change: ClientChange,
  doer: Doer & { saw: string },
): Promise<void> => {
  const faults = changeFaults(client, change);
  if (faults.length > 0) throw invalid(...faults);
  const { userId, now } = doer;
  const redirectUris = [...new Set(change.redirectUris)];
  const after = { ...change, redirectUris, rotatesRefreshTokens: client.isPublic || change.rotatesRefreshTokens };
  await transaction(sql, async (tx) => {
    const before = await updateClient(tx, client.id, { ...after, userId, now });
    if (before === undefined) throw notFound('app');
    const changed = changesOf(before, after);
    if (changed.length === 0) return;
    if (settingsMark(before) !== doer.saw) throw new Problem(409, { code: 'changed_meanwhile', message: CHANGED });
    const detail = { name: after.name, changed, redirect_uris: redirectUris };
    await recordClientEntry(tx, 'client_changed', client, { ...doer, detail });
  });
};

/** Says that the operator has looked at it. Throws a 404 where there is no such client. */
export const verifyClient = (sql: Sql, clientId: string, doer: Doer): Promise<void> =>
  transaction(sql, async (tx) => {
    const client = await markVerified(tx, clientId, doer.now);
    if (client === undefined) throw notFound('client');
    const detail = { name: client.name, changed: ['is_verified'] };
    await recordClientEntry(tx, 'client_changed', client, { ...doer, detail });
  });

/** Tells two states of a client apart, for whoever changes only what they have seen. */
export const versionOf = ({ dateModified }: Pick<Client, 'dateModified'>): number => dateModified.getTime();

/**
 * In the audit it is one deed, but each store is told that the app is gone. The client is marked before, so none of its
 * grants is given or ended meanwhile. It is all one transaction, 10,000 grants in 10,000 stores take 0.4 s and 100,000 take 4 s:
 * left to housekeeping, which deletes the grants, the entries would come a minute late and have forgotten who did it.
 */
const recordDeletion = async (
  tx: Tx,
  { changelog, stopWebhooks }: AfterGrants,
  client: Known,
  doer: Doer,
): Promise<void> => {
  await stopWebhooks(tx, { client: client.id }, doer.now);
  await recordClientEntry(tx, 'client_deleted', client, { ...doer, detail: { name: client.name } });
  const deed = { actor: actorOfDoer(doer), action: 'revoked' } as const;
  for (let after = 0; ;) {
    const page = await storeGrantsOf(tx, client.id, { after, limit: GRANTS_AT_ONCE });
    const grants = page.map((grant) => ({ ...grant, client: client.id, clientId: client.clientId, name: client.name }));
    await changelog.record(tx, grantChanges(grants, deed), doer.now);
    const last = page.at(-1);
    if (last === undefined || page.length < GRANTS_AT_ONCE) return;
    after = last.grantId;
  }
};

const BUILT_IN = 'The command line signs in as this client: every Halcyon has it, and it is not deleted';

/**
 * Deletes a client. All its grants and tokens end with this commit in every process. Throws a 404 where there is no such
 * client, a 409 `built_in` where it is the command line's, and whatever `unmodified` throws of its version. Until
 * housekeeping is through with it, its client_id is not given to another.
 */
export const removeClient = (
  { sql, ...after }: AfterGrants & { sql: Sql },
  clientId: string,
  { unmodified, ...doer }: Doer & { unmodified?: (version: number) => void },
): Promise<void> =>
  transaction(sql, async (tx) => {
    if (clientId === COMMAND_LINE_CLIENT) throw new Problem(409, { code: 'built_in', message: BUILT_IN });
    const client = await markDeleted(tx, clientId, doer.now);
    if (client === undefined) throw notFound('client');
    unmodified?.(versionOf(client));
    await recordDeletion(tx, after, client, doer);
  });

/** Deletes every client of a person who is being erased; in the transaction of that. */
export const removeClientsOf = async (tx: Tx, after: AfterGrants, ownerId: number, doer: Doer): Promise<void> => {
  for (const client of await markDeletedOf(tx, ownerId, doer.now)) await recordDeletion(tx, after, client, doer);
};
