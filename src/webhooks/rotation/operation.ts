/** A new key for a webhook: beside the present one for a while, so that a receiver can change over without missing anything. */
import { randomBytes } from 'node:crypto';
import { Type, type Static } from 'typebox';
import type { Tx } from '#db/pool.ts';
import { doing } from '#http/creating.ts';
import { clearableText, flag, isSet } from '#http/inputs.ts';
import type { ApiRequest, Operation } from '#http/operation.ts';
import { invalid, notFound, Problem, type Fault } from '#core/problem.ts';
import { keyOf, opened, sealedTo, seesKey, show, webhookOf, type WebhookDeps } from '../access.ts';
import { addressOfWebhook, versionOf } from '../document.ts';
import { findWebhook, lockWebhook, updateWebhook, type WebhookRow } from '../webhook-sql.ts';
import { recordWebhook } from '../audit.ts';
import { checkBeginning, finished, settled, type Keys } from './rotation.ts';

const KEY_LENGTH_MAX = 1_000;
const NEW_KEY_BYTES = 32;
const HOUR_MS = 3_600_000;

const input = Type.Object(
  {
    encryption_key: clearableText({
      maxLength: KEY_LENGTH_MAX,
      kind: 'secret',
      description: 'The new key. Leave it out, and one is made up; partner_sitebuilder needs the one of that platform.',
    }),
    finish: flag({
      description: 'Ends the rotation that is under way: from now on the new key is the only one.',
      default: '0',
    }),
  },
  { additionalProperties: false },
);
type Body = Static<typeof input>;
type Asked = ApiRequest<Body>;

const bothFault: Fault = {
  code: 'invalid_value',
  message: 'finish goes with no encryption_key: it ends a rotation with the key that this began with',
  field: 'finish',
};

/** Before base64: the key is the bytes that this decodes to (Standard Webhooks 1.0, "Signature scheme"). */
const SECRET_PREFIX = 'whsec_';

const faultsOf = ({ encryption_key: key, finish }: Partial<Body>): Fault[] => (isSet(finish) && key ? [bothFault] : []);

const admit = async ({ sql }: WebhookDeps, request: ApiRequest): Promise<void> => {
  const webhook = await webhookOf(sql, request);
  if (seesKey(request.principal, webhook)) return;
  const message =
    'The key of a webhook is rotated by who sees it: the app that made the webhook, and the owner of the store';
  const headers = { 'WWW-Authenticate': 'Bearer realm="halcyon", error="insufficient_scope"' };
  throw new Problem(403, { code: 'insufficient_scope', message }, { headers });
};

/** The keys after what was asked for. */
const rotated = (deps: WebhookDeps, stored: WebhookRow, { body, now }: Asked): Keys => {
  if (isSet(body.finish)) return finished(stored);
  const key = body.encryption_key || null;
  checkBeginning(stored, { key, present: opened(deps, stored) });
  const next = key ?? SECRET_PREFIX + randomBytes(NEW_KEY_BYTES).toString('base64');
  return {
    encryptionKey: stored.encryptionKey,
    nextEncryptionKey: deps.sealer.seal(next, sealedTo(stored.id)),
    rotationEndsAt: new Date(now.getTime() + deps.keyOverlapHours * HOUR_MS),
  };
};

const rotate = async (tx: Tx, deps: WebhookDeps, request: Asked): Promise<WebhookRow> => {
  const key = keyOf(request);
  const row = await lockWebhook(tx, key);
  if (row === undefined) throw notFound('webhook');
  const stored = settled(row, request.now);
  request.unmodified(versionOf(stored));
  const keys = rotated(deps, stored, request);
  await updateWebhook(tx, { ...stored, ...keys, shard: key.shard, stopsDeliveries: false, now: request.now });
  const after = await findWebhook(tx, key);
  if (after === undefined) throw new Error(`Webhook ${key.id} is not there after its update`);
  await recordWebhook(tx, deps.changelog, { before: stored, after }, request);
  await deps.announce(tx, key.shard, [key.id]);
  return after;
};

export const createRotateKey = (deps: WebhookDeps): Operation =>
  doing({
    title: 'Rotate the key',
    isConditional: true,
    done: 'rotated',
    summary: `Gives the webhook a new encryption_key; for ${deps.keyOverlapHours} hours, or until it is finished, deliveries are signed with both`,
    input,
    admit: (request) => admit(deps, request),
    review: async ({ body }) => faultsOf(body),
    prepare: async ({ body }) => {
      const faults = faultsOf(body);
      if (faults.length > 0) throw invalid(...faults);
    },
    make: async (tx, request) => {
      const { shard, id } = keyOf(request);
      return {
        document: show(deps, await rotate(tx, deps, request), request),
        location: addressOfWebhook(id, deps.baseUrl),
        made: async () => deps.onChanged({ shard, id }),
      };
    },
  });
