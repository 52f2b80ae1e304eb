/** GET /webhooks/<id>/jwks.json: the public keys of a webhook that signs with Ed25519 (RFC 7517, RFC 8037), for anyone. */
import { notFound } from '#core/problem.ts';
import { jwkOf, publicKeyOf } from '#core/signing-keys.ts';
import type { RawHandler } from '#http/route.ts';
import { parseId, shardOf } from '#core/ids.ts';
import { openKey, type WebhookDeps } from './webhook-access.ts';
import { findWebhook } from './webhook-sql.ts';
import { withCurrentKeys } from './webhook.ts';

/** Much shorter than a rotation, so that a receiver has the next key in time. */
const KEPT_SECONDS = 300;

/** During a rotation there are two keys. A webhook without such a key is a 404, like one that does not exist. */
export function createPublicKeys(deps: Pick<WebhookDeps, 'sql' | 'sealer'>): RawHandler {
  return async ({ params, now }) => {
    const id = parseId(params['webhook_id'] ?? '');
    const row =
      id === undefined ? undefined : await findWebhook(deps.sql, { shard: shardOf(id), id, stores: null, app: null });
    const current = row && withCurrentKeys(row, now);
    const sealed = current === undefined ? [] : [current.encryptionKey, current.nextEncryptionKey];
    const keys = sealed.flatMap((encryptionKey) => publicKeyOf(openKey(deps, { id: id ?? 0, encryptionKey })) ?? []);
    if (keys.length === 0) throw notFound('public key');
    return {
      status: 200,
      headers: { 'Content-Type': 'application/jwk-set+json', 'Cache-Control': `public, max-age=${KEPT_SECONDS}` },
      body: JSON.stringify({ keys: keys.map(jwkOf) }),
    };
  };
}
