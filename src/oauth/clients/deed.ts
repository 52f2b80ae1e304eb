/** Who did what to a client, as the audit keeps it: for its owner to see, and for the operator to find out who it was. */
import { recordDeed, type Action, type Origin } from '#accounts/audit/audit.ts';
import { inPerson, OPERATOR, type Actor } from '#changelog/changelog.ts';
import type { Queryable } from '#database/pool.ts';

/** A program that did it: a client with the platform's token (its internal id), or the holder of a registration token. */
export type Caller = { by_client: number } | { registration_token: string };

/**
 * Who does it, and from where (null for this machine). A person has a `userId`, a program is the `caller`; the operator
 * is neither of them.
 */
export type Doer = { userId: number | null; caller?: Caller | undefined; origin: Origin | null; now: Date };

/** The same for the changelog of a store. With a registration token clients are made, and nothing in a store changes. */
export const actorOfDoer = ({ userId, caller }: Doer): Actor => {
  if (userId !== null) return inPerson(userId);
  if (caller !== undefined && 'by_client' in caller) return { kind: 'platform', user: null, client: caller.by_client };
  return OPERATOR;
};

/** Where no person did it, it stands among what concerns the client's owner. */
export const recordClientDeed = (
  sql: Queryable,
  action: Extract<Action, `client_${string}`>,
  client: { id: number; clientId: string; ownerId: number | null },
  doer: Doer & { detail?: Readonly<Record<string, string | readonly string[]>> },
): Promise<void> => {
  const { userId, caller, origin, detail, now } = doer;
  return recordDeed(sql, {
    action,
    userId: userId ?? client.ownerId,
    client: client.id,
    origin,
    detail: { client_id: client.clientId, ...detail, ...caller },
    now,
  });
};
