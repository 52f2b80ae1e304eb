/** Who did what to a client, as the audit keeps it: for its owner to see, and for the operator to find out who it was. */
import { recordAuditEntry, type Action, type Origin } from '#identity/accounts/audit/audit.ts';
import { inPerson, OPERATOR, type Actor } from '#changelog/changelog.ts';
import type { Queryable } from '#db/pool.ts';

/** A program that did it: a client with the platform's token (its two ids), or the holder of a registration token. */
export type Caller = { client: number; clientId: string } | { registration_token: string };

/** A client with the platform's token, by the internal id and the public one that its principal has. */
export const callerOf = (client: number | null, clientId: string | null): Caller | undefined =>
  client === null || clientId === null ? undefined : { client, clientId };

/**
 * Who does it, and from where (null for this machine). A person has a `userId`, a program is the `caller`; the operator
 * is neither of them.
 */
export type Doer = { userId: number | null; caller?: Caller | undefined; origin: Origin | null; now: Date };

/** The same for the changelog of a store. With a registration token clients are made, and nothing in a store changes. */
export const actorOfDoer = ({ userId, caller }: Doer): Actor => {
  if (userId !== null) return inPerson(userId);
  if (caller !== undefined && 'client' in caller) return { kind: 'platform', user: null, client: caller.clientId };
  return OPERATOR;
};

/** As the audit keeps it. */
const told = (caller: Caller | undefined) =>
  caller !== undefined && 'client' in caller ? { by_client: caller.client } : caller;

/** Where no person did it, it stands among what concerns the client's owner. */
export const recordClientEntry = (
  sql: Queryable,
  action: Extract<Action, `client_${string}`>,
  client: { id: number; clientId: string; ownerId: number | null },
  doer: Doer & { detail?: Readonly<Record<string, string | readonly string[]>> },
): Promise<void> => {
  const { userId, caller, origin, detail, now } = doer;
  return recordAuditEntry(sql, {
    action,
    userId: userId ?? client.ownerId,
    client: client.id,
    origin,
    detail: { client_id: client.clientId, ...detail, ...told(caller) },
    now,
  });
};
