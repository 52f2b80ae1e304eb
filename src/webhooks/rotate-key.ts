/**
 * Key rotation: a new key is valid beside the current one for some hours, so that a receiver can change keys without losing events. And
 * GET /webhooks/<id>/jwks.json: the public keys of a webhook that signs with Ed25519 (RFC 7517, RFC 8037), for anyone.
 */
import { randomBytes } from 'node:crypto';
import type { Static } from 'typebox';
import type { Tx } from '#db/pool.ts';
import { doing } from '#http/idempotency.ts';
import { closedObject, clearableChoice, clearableText, flag, isSet } from '#http/inputs.ts';
import type { ApiRequest, Operation } from '#http/operation.ts';
import { invalidValue, invalid, notFound, type Fault } from '#core/problem.ts';
import { newSigningKey, publicKeyOf, jwkOf, withCurrentKeys } from '#core/keys.ts';
import type { RawHandler } from '#http/route.ts';
import { parseId, shardOf } from '#core/ids.ts';
import {
  CHANGE_SCOPES,
  forbiddenAction,
  keyOf,
  openKey,
  sealBinding,
  requireChangeable,
  seesKey,
  documentFor,
  notifyOfNewKey,
  webhookOf,
  type WebhookDeps,
  lockWebhookOf,
} from './webhook-access.ts';
import { addressOfWebhook, versionOf } from './webhook-document.ts';
import { findWebhook, updateWebhook, type WebhookRow } from './webhook-sql.ts';
import { checkCanRotate, finishRotation, recordWebhook, signingKeyFaults, type Keys } from './webhook.ts';

const KEY_LENGTH_MAX = 1_000;
const KEY_TYPES = ['hmac', 'ed25519'] as const;
const NEW_KEY_BYTES = 32;
const HOUR_MS = 3_600_000;

const input = closedObject({
  encryption_key: clearableText({
    maxLength: KEY_LENGTH_MAX,
    kind: 'secret',
    description: 'The new key. Generated if absent; partner_sitebuilder requires the token of that platform.',
  }),
  key_type: clearableChoice(KEY_TYPES, {
    description: 'What is generated: a secret for HMAC-SHA256, or an Ed25519 key. By default as the current key.',
  }),
  finish: flag({
    description: 'Ends the current rotation: the new key becomes the only one.',
    default: '0',
  }),
});
type Body = Static<typeof input>;
type RotationRequest = ApiRequest<Body>;

const TYPE_WITH_KEY: Fault = invalidValue(
  'key_type',
  'key_type must not be combined with encryption_key or finish: it is the type of the key that is generated',
);

const FINISH_WITH_KEY: Fault = invalidValue(
  'finish',
  'finish must not be combined with encryption_key: the rotation ends with the key that it began with',
);

/** Marks a base64 key, whose decoded bytes sign (Standard Webhooks 1.0, "Signature scheme"). */
const SECRET_PREFIX = 'whsec_';

function newKey(type: (typeof KEY_TYPES)[number]): string {
  return type === 'ed25519' ? newSigningKey() : SECRET_PREFIX + randomBytes(NEW_KEY_BYTES).toString('base64');
}

const faultsOf = ({ encryption_key: key, finish, key_type: type }: Partial<Body>): Fault[] => [
  ...(isSet(finish) && key ? [FINISH_WITH_KEY] : []),
  ...(type && (key || isSet(finish)) ? [TYPE_WITH_KEY] : []),
];

async function admit({ sql }: WebhookDeps, request: ApiRequest): Promise<void> {
  const webhook = await webhookOf(sql, request);
  if (seesKey(request.principal, webhook)) return;
  throw forbiddenAction('Only the app that created the webhook and the owner of the store may rotate its key');
}

/** Returns the keys after the request. */
function nextKeys(deps: WebhookDeps, stored: WebhookRow, { body, now }: RotationRequest): Keys {
  if (isSet(body.finish)) return finishRotation(stored);
  const key = body.encryption_key || null;
  const present = openKey(deps, stored);
  checkCanRotate(stored, { key, present });
  const next = key ?? newKey(body.key_type || (publicKeyOf(present) === null ? 'hmac' : 'ed25519'));
  const faults = signingKeyFaults(stored, next);
  if (faults.length > 0) throw invalid(...faults);
  return {
    encryptionKey: stored.encryptionKey,
    nextEncryptionKey: deps.sealer.seal(next, sealBinding(stored.id)),
    rotationEndsAt: new Date(now.getTime() + deps.config.webhooks.keyOverlapHours * HOUR_MS),
  };
}

async function rotate(
  tx: Tx,
  deps: WebhookDeps,
  request: RotationRequest,
): Promise<{ before: WebhookRow; after: WebhookRow }> {
  const key = keyOf(request);
  const row = await lockWebhookOf(tx, request);
  requireChangeable(row);
  const stored = withCurrentKeys(row, request.now);
  request.unmodified(versionOf(stored));
  const keys = nextKeys(deps, stored, request);
  await updateWebhook(tx, { ...stored, ...keys, shard: key.shard, stopsDeliveries: false, now: request.now });
  const after = await findWebhook(tx, key);
  if (after === undefined) throw new Error(`Webhook ${key.id} not found after its update`);
  await recordWebhook(tx, deps.changelog, { before: stored, after }, request);
  await deps.announce(tx, key.shard, [key.id]);
  return { before: stored, after };
}

export function createRotateKey(deps: WebhookDeps): Operation {
  return doing({
    title: 'Rotate the key',
    isConditional: true,
    isSensitive: true,
    done: 'rotated',
    summary: `Adds a new encryption_key; deliveries are signed with both keys for ${deps.config.webhooks.keyOverlapHours} hours, or until the rotation is finished`,
    scopes: CHANGE_SCOPES,
    input,
    admit: (request) => admit(deps, request),
    review: async ({ body }) => faultsOf(body),
    prepare: async ({ body }) => {
      const faults = faultsOf(body);
      if (faults.length > 0) throw invalid(...faults);
    },
    make: async (tx, request) => {
      const { id } = keyOf(request);
      const { before, after } = await rotate(tx, deps, request);
      return {
        document: documentFor(deps, after, request),
        location: addressOfWebhook(id, deps.config.baseUrl),
        made: async () => notifyOfNewKey(deps, request, before, after),
      };
    },
  });
}

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
