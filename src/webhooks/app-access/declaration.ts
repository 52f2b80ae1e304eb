/** What a developer declares for an app, once for all stores: the url, the events, and the key of its webhooks. */
import { randomBytes } from 'node:crypto';
import type { Queryable, Sql } from '#db/pool.ts';
import type { Vault, Sealer } from '#db/seal.ts';
import { vaultOf } from '#db/sealed-tables.ts';
import type { InternalEventWriter } from '#events/publish/internal-event.ts';
import { invalidValue, conflict, notFound, type Fault } from '#core/problem.ts';
import { keysAt, singleKey } from '#core/keys.ts';
import { inAvailable, type EachDatabase } from '#shards/map.ts';
import type { WebhookDeps } from '../webhook-access.ts';
import { addressFault } from '../webhook.ts';
import { consentFaults, type HandshakeDeps } from '../handshake.ts';
import { URL_LENGTH_MAX } from '../webhook-fields.ts';
import type { Declaration } from './declared.ts';
import { lockApps } from './app-access-sql.ts';
import { beginFollowing } from './follow.ts';
import {
  findKeys,
  lockKeys,
  markRemoved,
  readDeclarationRow,
  updateKeys,
  upsertDeclarationCopy,
  upsertDeclaration,
  type SealedKeys,
} from './declarations-sql.ts';
import { listProgress, type Progress } from './follow-sql.ts';

const KEY_BYTES = 32;
const HOUR_MS = 3_600_000;

/** Returns the associated data of an app's sealed key, which deliveries of its webhooks are signed with. */
const appKeyBinding = (client: number): string => `app_webhook:${client}`;

type KeyChange = 'begin' | 'finish' | 'at_once';

type Deps = Pick<WebhookDeps, 'accounts' | 'sealer' | 'announce' | 'guard'> &
  HandshakeDeps & {
    writeInternalEvents: InternalEventWriter;
    each: EachDatabase;
    /** Called when a declaration was changed, before the commit. */
    onDeclared?: () => void;
  };

const invalidUrl = (label: string, reason: string): Fault => invalidValue('webhook_url', `${label} ${reason}`);

function syntaxFault(url: string): string | undefined {
  if (url.length > URL_LENGTH_MAX) return `must be at most ${URL_LENGTH_MAX} characters`;
  // The URL is stored in clear, and is the same for all stores: deliveries are recognized by their signature.
  if (url.includes('?')) return 'must not contain a query: the signature of each delivery authenticates it';
  return addressFault(url);
}

const newKey = (sealer: Sealer, client: number): Buffer =>
  sealer.seal(`whsec_${randomBytes(KEY_BYTES).toString('base64')}`, appKeyBinding(client));

/** Returns the keys after the change. Throws a 409 for a rotation that is under way, or for none. */
function keysAfter(stored: SealedKeys, change: KeyChange, { create, endsAt, now }: NewKey): SealedKeys {
  const { current, next } = keysAt(stored, now);
  if (change === 'at_once') return singleKey(create());
  if (change === 'finish') {
    if (next !== null) return singleKey(next);
    throw conflict('no_rotation', 'No new key replaces the current one at the moment');
  }
  if (next !== null) throw conflict('rotation_under_way', 'A new key replaces the current one already');
  return { encryptionKey: current, nextEncryptionKey: create(), rotationEndsAt: endsAt };
}

type NewKey = { create: () => Buffer; endsAt: Date; now: Date };

/** Returns what clients need to declare a webhook: `AppWebhooks` of identity/oauth, which describes the members. */
export function createAppWebhooks(deps: Deps) {
  const { sealer, guard } = deps;
  const { keyOverlapHours } = deps.config.webhooks;
  const open = (sealed: Buffer | null, client: number): string | null => {
    try {
      return sealed === null ? null : sealer.open(sealed, appKeyBinding(client));
    } catch {
      // Another HALCYON_SECRET_KEY sealed it: the key must be replaced.
      return null;
    }
  };
  return {
    keyOverlapHours,
    faultsOf: async (url: string | null, label = 'webhook_url'): Promise<Fault[]> => {
      if (url === null) return [];
      const reason = syntaxFault(url);
      if (reason !== undefined) return [invalidUrl(label, reason)];
      const forbidden = await guard.checkUrl(url);
      return forbidden === null ? [] : [{ ...invalidUrl(`${label}:`, forbidden), code: 'forbidden_address' }];
    },
    consentFaults: (url: string | null, asker: string, label = 'webhook_url'): Promise<Fault[]> =>
      consentFaults(deps, url, asker, { field: 'webhook_url', label }),
    declare: async (tx: Queryable, client: number, declared: Declaration | null, now: Date): Promise<void> => {
      deps.onDeclared?.();
      if (declared === null) await markRemoved(tx, client);
      else await upsertDeclaration(tx, { ...declared, client, key: newKey(sealer, client), now });
      await beginFollowing(tx, deps, client, now);
    },
    progressOf: async (clients: readonly number[]) => {
      const sums = new Map<number, Omit<Progress, 'client'>>();
      for (const { client, followed, total } of await inAvailable(deps.each, (sql) => listProgress(sql, clients))) {
        const sum = sums.get(client) ?? { followed: 0, total: 0 };
        sums.set(client, { followed: sum.followed + followed, total: sum.total + total });
      }
      return sums;
    },
    keysOf: async (sql: Queryable, client: number, now: Date) => {
      const keys = await findKeys(sql, client);
      if (keys === undefined) return null;
      const { current, next } = keysAt(keys, now);
      const rotationEndsAt = next === null ? null : keys.rotationEndsAt;
      return { current: open(current, client), next: open(next, client), rotationEndsAt };
    },
    replaceKey: async (tx: Queryable, client: number, change: KeyChange, now: Date): Promise<void> => {
      await lockApps(deps.accounts.of(tx), [client]);
      const stored = await lockKeys(tx, client);
      if (stored === undefined) throw notFound('webhook of the app');
      const endsAt = new Date(now.getTime() + keyOverlapHours * HOUR_MS);
      const keys = keysAfter(stored, change, { create: () => newKey(sealer, client), endsAt, now });
      await updateKeys(tx, client, keys, now);
      deps.onDeclared?.();
      await beginFollowing(tx, deps, client, now);
    },
  };
}

/** Copies the declaration of an app from the home database to another one, whose stores then follow it. */
export async function copyDeclaration(
  tx: Queryable,
  client: number,
  deps: Pick<Deps, 'accounts' | 'announce' | 'writeInternalEvents'>,
  now: Date,
): Promise<void> {
  const row = await readDeclarationRow(deps.accounts.of(tx), client);
  if (row !== undefined) await upsertDeclarationCopy(tx, row);
  else if (!(await markRemoved(tx, client))) return;
  await beginFollowing(tx, deps, client, now);
}

/** The keys of apps' webhooks, which are sealed again when HALCYON_SECRET_KEY changes. */
export function createAppKeyVault(sql: Sql): Vault {
  return vaultOf(sql, {
    name: 'webhooks of apps',
    seals: 'app_webhook',
    key: { client: 'bigint' },
    columns: ['key', 'next_key'],
    boundTo: ({ client }) => appKeyBinding(client),
  });
}
