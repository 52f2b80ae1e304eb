/** Records the user's decision: an approval as grant, code and audit entry; a denial as audit entry. */
import { originOf, recordAuditEntry } from '#identity/accounts/audit.ts';
import type { Client } from '../clients/clients-sql.ts';
import type { Session } from '#identity/accounts/sessions.ts';
import { inPerson } from '#changelog/changelog.ts';
import { transaction, type Queryable, type Sql } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import { grantChanges, type RevocationEffects } from '../grants.ts';
import { scopeNames, type GrantedScope } from '../scope.ts';
import {
  denyPendingDevice,
  insertApproval,
  lockMembership,
  lockParties,
  takePendingDevice,
  type PickableStore,
} from './authorize-sql.ts';
import { createToken } from '../oauth-tokens.ts';
import type { ConsentRequest } from './authorization-request.ts';

type Decision = {
  request: ConsentRequest;
  session: Session;
  rawRequest: Pick<RawRequest, 'address' | 'headers' | 'now'>;
};

const auditFieldsOf = ({ request, session, rawRequest }: Decision) => ({
  userId: session.userId,
  client: request.client.id,
  origin: originOf(rawRequest),
  now: rawRequest.now,
});

/**
 * Records an approval and returns the code for the client; undefined if the user, the session, the client or the membership
 * in `store` no longer exists, or if the device was decided on elsewhere. These rows are locked in the transaction of the grant, so
 * no grant survives their removal.
 *
 * The store's changelog entry is written here and not when the code is redeemed: it records the user's decision, the grant
 * can be revoked from now on, and at the token endpoint the entry would cost four statements more than the two it has.
 * A grant that lapses (code not redeemed, a year without use) has no entry for its end.
 */
export function recordApproval(
  sql: Sql,
  { changelog, accessChanged, resumeWebhooks }: RevocationEffects & Pick<StoppedWebhooks, 'resumeWebhooks'>,
  decision: Decision & {
    request: { client: Client };
    store: PickableStore | undefined;
    /** What the user allowed, perhaps less than the client requested. */
    granted: GrantedScope;
    /** The stores in which the client's disabled webhooks are enabled again. */
    resumedStores: readonly number[];
    codeLifetimeSeconds: number;
  },
): Promise<string | undefined> {
  return transaction(sql, async (tx) => {
    const { request, session, store, granted, rawRequest } = decision;
    const { client, redirectUri, codeChallenge, device, own } = request;
    const { userId } = session;
    if (!(await lockParties(tx, client.id, session))) return undefined;
    if (store !== undefined && !(await lockMembership(tx, userId, store.id))) return undefined;
    if (device !== undefined && !(await takePendingDevice(tx, device.hash, rawRequest.now))) return undefined;
    const code = createToken('authorizationCode');
    const grantId = await insertApproval(tx, {
      client: client.id,
      userId,
      scope: granted.scope,
      permissions: granted.permissions,
      storeId: store?.id ?? null,
      // A device redeems the code that it has.
      codeHash: device?.hash ?? code.hash,
      redirectUri,
      codeChallenge,
      now: rawRequest.now,
      ends: own?.ends ?? null,
      codeExpires: device?.expires ?? new Date(rawRequest.now.getTime() + decision.codeLifetimeSeconds * 1_000),
    });
    await recordAuditEntry(tx, {
      ...auditFieldsOf(decision),
      action: 'grant_given',
      storeId: store?.id ?? null,
      detail: { client: client.name, scope: scopeNames(granted).join(' '), ...(store && { store: store.name }) },
    });
    const grant = { grantId, userId, storeId: store?.id ?? null, permissions: granted.permissions, client: client.id };
    const changes = grantChanges([{ ...grant, clientId: client.clientId, name: client.name }], {
      actor: inPerson(userId),
      action: 'given',
    });
    await changelog.record(tx, changes, rawRequest.now);
    await accessChanged(tx, { client: client.id, userId, storeId: store?.id ?? null }, rawRequest.now);
    if (decision.resumedStores.length > 0)
      await resumeWebhooks(tx, { client: client.id, userId, storeIds: decision.resumedStores }, rawRequest.now);
    return code.value;
  });
}

/** Records a denial; returns false if the device was decided on elsewhere. */
export function recordDenial(sql: Sql, decision: Decision): Promise<boolean> {
  const { client, scope, device } = decision.request;
  return transaction(sql, async (tx) => {
    if (device !== undefined && !(await denyPendingDevice(tx, device.hash, decision.rawRequest.now))) return false;
    await recordAuditEntry(tx, {
      ...auditFieldsOf(decision),
      action: 'grant_denied',
      detail: { client: client.name, scope: scopeNames(scope).join(' ') },
    });
    return true;
  });
}

/** Enables webhooks that were disabled when the app's access ended, with an approval; composed with the webhooks module. */
export type StoppedWebhooks = {
  /** Returns the number of the client's webhooks that were disabled when its access ended, by store. */
  countStopped: (
    sql: Queryable,
    client: number,
    storeIds: readonly number[],
  ) => Promise<readonly { storeId: number; count: number }[]>;
  /** Enables these webhooks again, in the transaction of the new grant. */
  resumeWebhooks: (
    tx: Queryable,
    which: { client: number; userId: number; storeIds: readonly number[] },
    now: Date,
  ) => Promise<void>;
};
