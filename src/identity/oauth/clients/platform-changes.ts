/** What the platform changes of a client: PATCH, PUT, and POST with a known `external_id`. Secrets are neither changed nor shown. */
import { isDeepStrictEqual } from 'node:util';
import type { Tx } from '#db/pool.ts';
import { replaceKey } from '#http/external-keys.ts';
import { isSet } from '#http/inputs.ts';
import type { ApiRequest } from '#http/operation.ts';
import { platformClient } from '#core/principal.ts';
import { conflict, invalid, type Fault } from '#core/problem.ts';
import { recordClientEntry, type ClientActor } from './action.ts';
import type { AppWebhooks } from './app-webhook.ts';
import { changeClient, changeFaults, versionOf } from './client-change.ts';
import { parseSettings, settingsHash, type ClientPart, type ClientSettings } from './client-fields.ts';
import { lockClient, markVerified, touchClient, type Client } from './clients-sql.ts';
import { COMMAND_LINE_CLIENT } from './clients.ts';

/** A body that changes a client. `isWhole`: settings that it does not name get their initial values. */
export type ClientBody = { body: ClientPart; isWhole?: boolean };

/** Returns the settings of the client after applying the body. */
function changeOf(client: Client, { body, isWhole = false }: ClientBody): ClientSettings {
  const change = isWhole ? parseSettings(body) : parseSettings(body, client);
  return {
    ...change,
    redirectUris: [...new Set(change.redirectUris)],
    // A public client always rotates and must use PKCE.
    rotatesRefreshTokens: client.isPublic || change.rotatesRefreshTokens,
    requiresPkce: !client.isPublic && change.requiresPkce,
  };
}

/** Returns the faults of members that never change, and differ. Sending the current value is allowed. */
function fixedFaults(client: Client, body: ClientPart): Fault[] {
  const isOther = {
    is_public: isSet(body.is_public ?? client.isPublic) !== client.isPublic,
    is_legacy: isSet(body.is_legacy ?? client.isLegacy) !== client.isLegacy,
    owner: body.owner !== undefined && body.owner !== client.ownerId,
    // Only what a person or the app itself changes makes it unverified.
    is_verified: client.isVerified && !isSet(body.is_verified ?? true),
  };
  return Object.entries(isOther).flatMap(([field, differs]) =>
    differs
      ? [{ code: 'invalid_value', message: `${field} cannot be changed: omit it or send its current value`, field }]
      : [],
  );
}

const OF_OPERATOR = 'Only the operator changes this client: it is built in, or one of the platform';

/**
 * Checks a change: before its transaction, where the endpoint of another url is asked for `asker` whether it agrees, and again with the
 * locked row. Throws a 400 with all faults, and a 409 for a client of the operator.
 */
export async function requireValid(
  appWebhooks: AppWebhooks,
  client: Client,
  sent: ClientBody & { asker?: string },
): Promise<void> {
  if (client.trusted || client.clientId === COMMAND_LINE_CLIENT) throw conflict('client_of_operator', OF_OPERATOR);
  const { asker } = sent;
  const known = fixedFaults(client, sent.body);
  const faults = await changeFaults(appWebhooks, client, changeOf(client, sent), { known, ...(asker && { asker }) });
  if (faults.length > 0) throw invalid(...faults);
}

/** Changes a client whose row it locks; a POST has no `unmodified`. Returns undefined if the client does not exist. Throws the errors of `changeClient`. */
export async function changeClientIn(
  tx: Tx,
  appWebhooks: AppWebhooks,
  id: number,
  {
    principal,
    unmodified,
    actor,
    ...sent
  }: ClientBody & Pick<ApiRequest, 'principal'> & Partial<Pick<ApiRequest, 'unmodified'>> & { actor: ClientActor },
): Promise<{ row: Client } | undefined> {
  const reader = platformClient(principal);
  const { now } = actor;
  const { body, isWhole } = sent;
  const client = await lockClient(tx, id, reader);
  if (client === undefined) return undefined;
  unmodified?.(versionOf(client));
  await requireValid(appWebhooks, client, sent);
  const key = body.external_id === '' || (isWhole && body.external_id === undefined) ? null : body.external_id;
  if (reader !== null && key !== undefined && key !== client.externalId) {
    await replaceKey(tx, { client: reader, resource: 'client', id, key });
    await touchClient(tx, id, { userId: null, now });
  }
  if (!client.isVerified && body.is_verified !== undefined && isSet(body.is_verified)) {
    await markVerified(tx, client.clientId, now);
    const detail = { name: client.name, changed: ['is_verified'] };
    await recordClientEntry(tx, 'client_changed', client, { ...actor, detail });
  }
  const change = changeOf(client, sent);
  if (!isDeepStrictEqual(change, changeOf(client, { body: {} })))
    await changeClient({ sql: tx, appWebhooks }, client, change, { ...actor, baseHash: settingsHash(client) });
  return { row: (await lockClient(tx, id, reader)) ?? client };
}
