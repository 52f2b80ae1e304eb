/** The webhook that a developer declares for an app, once for all stores: its url and its key. */
import { randomBytes } from 'node:crypto';
import type { Queryable, Sql } from '#db/pool.ts';
import type { Vault } from '#db/reseal.ts';
import type { InternalEventWriter } from '#events/publish/internal-event.ts';
import type { Fault } from '#core/problem.ts';
import type { WebhookDeps } from '../access.ts';
import { addressFault } from '../address.ts';
import { URL_LENGTH_MAX } from '../schema.ts';
import { announceAccess, announceWebhooks } from './announce-access.ts';
import { deleteForApp, updateUrls } from './app-webhooks-sql.ts';
import {
  countDeclarationsOfOtherKey,
  deleteDeclarations,
  findDeclaration,
  listDeclarationsOfOtherKey,
  replaceDeclarationKeys,
  upsertDeclaration,
} from './declarations-sql.ts';

const KEY_BYTES = 32;

/** Returns the associated data of an app's sealed key, which deliveries of its webhooks are signed with. */
const appKeyBinding = (client: number): string => `app_webhook:${client}`;

export type AppWebhooks = {
  /** Returns the faults of a url that an app declares. */
  faultsOf: (url: string | null, label?: string) => Promise<Fault[]>;
  /**
   * Declares the webhook of an app (`client` is the internal id), changes its url, or removes it (null). Stores with the app get its
   * webhook without an event. Call it in the transaction that changes the app, whose row is locked.
   */
  declare: (tx: Queryable, client: number, url: string | null, now: Date) => Promise<void>;
  /** Returns the key of an app's webhook; null if it declares none, or if the key cannot be decrypted. */
  keyOf: (sql: Queryable, client: number) => Promise<string | null>;
};

type Deps = Pick<WebhookDeps, 'sealer' | 'announce' | 'checkUrl'> & { writeInternalEvents: InternalEventWriter };

const invalidUrl = (label: string, reason: string): Fault => ({
  code: 'invalid_value',
  message: `${label} ${reason}`,
  field: 'webhook_url',
});

function syntaxFault(url: string): string | undefined {
  if (url.length > URL_LENGTH_MAX) return `must be at most ${URL_LENGTH_MAX} characters`;
  // Stored in clear, and the same for all stores: deliveries are recognized by their signature.
  if (url.includes('?')) return 'must not contain a query: the signature of each delivery authenticates it';
  return addressFault(url);
}

export function createAppWebhooks({ sealer, announce, checkUrl, writeInternalEvents }: Deps): AppWebhooks {
  return {
    faultsOf: async (url, label = 'webhook_url') => {
      if (url === null) return [];
      const reason = syntaxFault(url);
      if (reason !== undefined) return [invalidUrl(label, reason)];
      const forbidden = await checkUrl(url);
      return forbidden === null ? [] : [{ ...invalidUrl(`${label}:`, forbidden), code: 'forbidden_address' }];
    },
    declare: async (tx, client, url, now) => {
      if (url === null) {
        await deleteDeclarations(tx, [client]);
        await announceWebhooks(tx, announce, await deleteForApp(tx, client));
        return;
      }
      const key = sealer.seal(`whsec_${randomBytes(KEY_BYTES).toString('base64')}`, appKeyBinding(client));
      await upsertDeclaration(tx, { client, url, key, now });
      await announceWebhooks(tx, announce, await updateUrls(tx, client, url, now));
      await announceAccess(tx, { writeInternalEvents, announce }, { client, isSilent: true }, now);
    },
    keyOf: async (sql, client) => {
      const declared = await findDeclaration(sql, client);
      try {
        return declared === undefined ? null : sealer.open(declared.key, appKeyBinding(client));
      } catch {
        // Sealed under another HALCYON_SECRET_KEY: the webhook must be declared again.
        return null;
      }
    },
  };
}

/** The keys of apps' webhooks, which are sealed again when HALCYON_SECRET_KEY changes. */
export function createAppKeyVault(sql: Sql): Vault {
  return {
    name: 'webhooks of apps',
    count: (keyId) => countDeclarationsOfOtherKey(sql, keyId),
    page: async ({ keyId, after = '0', limitRows }) => {
      const rows = await listDeclarationsOfOtherKey(sql, { keyId, after: Number(after), limitRows });
      return rows.map(({ client, key }) => ({
        id: String(client),
        boundTo: appKeyBinding(client),
        envelopes: [key],
      }));
    },
    replace: async (rows) => {
      const replaced = rows.flatMap(({ id, envelopes: [before = null], renewed: [after = null] }) =>
        before === null || after === null ? [] : [{ client: Number(id), before, after }],
      );
      return (await replaceDeclarationKeys(sql, replaced)).map(String);
    },
  };
}
