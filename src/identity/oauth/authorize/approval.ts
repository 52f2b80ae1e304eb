/** What a decision leaves behind: a grant with its code, or nothing; and a line of the audit either way. */
import { originOf, recordAuditEntry } from '#identity/accounts/audit/audit.ts';
import type { Session } from '#identity/accounts/sessions.ts';
import { inPerson, type Changelog } from '#changelog/changelog.ts';
import { transaction, type Sql } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import { grantChanges } from '../grant-changes.ts';
import { createToken } from '../tokens.ts';
import type { AuthorizationRequest } from './authorization-request.ts';
import { holdMembership, holdParties, insertApproval, type PickableStore } from './authorize-sql.ts';
import type { StoppedWebhooks } from './stopped-webhooks.ts';

type Decision = {
  request: AuthorizationRequest;
  session: Session;
  door: Pick<RawRequest, 'address' | 'headers' | 'now'>;
};

const deedOf = ({ request, session, door }: Decision) => ({
  userId: session.userId,
  client: request.client.id,
  origin: originOf(door),
  now: door.now,
});

/**
 * The code to send to the client, or undefined where the person, their session, the client or the membership in `store`
 * is not there any more. All of it is looked at in the transaction of the grant, so a grant cannot outlive a race with their removal.
 *
 * For the store the grant is given here, though its app may never fetch the tokens: what its changelog tells is what
 * somebody decided, the account page lists it from now on, and they may revoke it at once. With the code, the entry would cost
 * the token endpoint four more statements than the two it has. A grant that lapses (a code that is not redeemed, a year
 * without use) leaves no entry: nobody ended it.
 */
export const recordApproval = (
  { sql, changelog, resumeWebhooks }: { sql: Sql; changelog: Changelog } & Pick<StoppedWebhooks, 'resumeWebhooks'>,
  decision: Decision & {
    store: PickableStore | undefined;
    /** Where webhooks of the client are switched on again. */
    resumedStores: readonly number[];
    codeLifetimeSeconds: number;
  },
): Promise<string | undefined> =>
  transaction(sql, async (tx) => {
    const { request, session, store, door } = decision;
    const { client, scope, redirectUri, codeChallenge } = request;
    const { userId } = session;
    if (!(await holdParties(tx, client.id, session))) return undefined;
    if (store !== undefined && !(await holdMembership(tx, userId, store.id))) return undefined;
    const code = createToken('authorizationCode');
    const grantId = await insertApproval(tx, {
      client: client.id,
      userId,
      scope: scope.scope,
      storeId: store?.id ?? null,
      codeHash: code.hash,
      redirectUri,
      codeChallenge,
      now: door.now,
      codeExpires: new Date(door.now.getTime() + decision.codeLifetimeSeconds * 1_000),
    });
    await recordAuditEntry(tx, {
      ...deedOf(decision),
      action: 'grant_given',
      storeId: store?.id ?? null,
      detail: { client: client.name, scope: scope.scope, ...(store && { store: store.name }) },
    });
    const grant = { grantId, userId, storeId: store?.id ?? null, client: client.id };
    const given = grantChanges([{ ...grant, clientId: client.clientId, name: client.name }], {
      actor: inPerson(userId),
      action: 'given',
    });
    await changelog.record(tx, given, door.now);
    if (decision.resumedStores.length > 0)
      await resumeWebhooks(tx, { client: client.id, userId, storeIds: decision.resumedStores }, door.now);
    return code.value;
  });

export const recordDenial = (sql: Sql, decision: Decision): Promise<void> => {
  const { client, scope } = decision.request;
  return recordAuditEntry(sql, {
    ...deedOf(decision),
    action: 'grant_denied',
    detail: { client: client.name, scope: scope.scope },
  });
};
