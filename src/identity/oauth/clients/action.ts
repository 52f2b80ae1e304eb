/** Records actions on clients in the audit, with the user or program that performed them. */
import { recordAuditEntry, type Action, type Origin } from '#identity/accounts/audit.ts';
import { inPerson, OPERATOR, type Actor } from '#changelog/changelog.ts';
import type { Queryable } from '#db/pool.ts';

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
