/** The interface by which a client declares a webhook for all stores that let it in; composed with the webhooks module. */
import { transaction, type Queryable, type Sql } from '#db/pool.ts';
import type { Fault } from '#core/problem.ts';
import { recordClientEntry, type ClientActor } from './action.ts';
import type { Client } from './clients-sql.ts';

export type AppWebhooks = {
  /** Returns the faults of a url; `label` names it in messages. */
  faultsOf: (url: string | null, label?: string) => Promise<Fault[]>;
  /**
   * Asks the endpoint of a new url that has no other faults, if the operator requires it, and returns the fault of one that does not allow deliveries; throws a 429
   * or 503 if it cannot be asked now. `asker`: what handshakes are counted by, an account, a client or a network.
   */
  consentFaults: (url: string | null, asker: string, label?: string) => Promise<Fault[]>;
  /**
   * Declares the webhook of a client (its internal id), changes its url, or removes it (null), in the transaction that has inserted or
   * locked the client.
   */
  declare: (tx: Queryable, client: number, url: string | null, now: Date) => Promise<void>;
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
