/** Replaces the key of the webhook that a client declares, with its audit entry in the same transaction. */
import { transaction, type Sql } from '#db/pool.ts';
import type { AppWebhooks, KeyChange } from './app-webhook.ts';
import { recordClientEntry, type ClientActor } from './action.ts';
import type { Client } from './clients-sql.ts';

/** Throws a 404 if the client declares no webhook, and a 409 as `replaceKey` does. */
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
