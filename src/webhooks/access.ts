/** Dependencies of the webhook operations, access checks, and the encryption and visibility of secrets. */
import type { Changelog } from '#changelog/changelog.ts';
import type { Queryable, Sql } from '#db/pool.ts';
import type { Search } from '#db/search.ts';
import type { Sealer } from '#db/seal.ts';
import type { Committed } from '#events/publish/rows.ts';
import type { ApiRequest } from '#http/operation.ts';
import type { Document } from '#hypermedia/document.ts';
import { parseId, shardOf } from '#core/ids.ts';
import { notFound } from '#core/problem.ts';
import { namesOf, withHiddenQuery, withoutSecrets, withSecrets, type Addressed } from '#core/request-secrets.ts';
import type { Principal } from '#core/principal.ts';
import { addressFault } from './address.ts';
import { webhookDocument } from './document.ts';
import type { Preview } from './history/delivery-request.ts';
import type { AnswerDelivery } from './pull/answer.ts';
import type { Authenticate, OpenStream } from './pull/listen.ts';
import { findWebhook, type Key, type WebhookRow } from './webhook-sql.ts';
import { withCurrentKeys } from './rotation/rotation.ts';
import { URL_LENGTH_MAX } from './schema.ts';
import type { SendSample } from './test-delivery.ts';

type PullDeps = { open: OpenStream; answer: AnswerDelivery };

export type WebhookDeps = {
  sql: Sql;
  changelog: Changelog;
  search: Search;
  sealer: Sealer;
  baseUrl: string;
  /** The payload versions that a webhook may have. */
  versions: readonly string[];
  webhooksPerStore: number;
  /** How long the old key stays valid beside the new one during a rotation. */
  keyOverlapHours: number;
  /** The prefix of the operator's own delivery headers, such as `Service`. */
  headerPrefix: string;
  /** Returns why the outbound guard forbids this url; null if it is allowed. */
  checkUrl: (url: string) => Promise<string | null>;
  /** Makes the request of a delivery as it is sent, for display. */
  preview: Preview;
  /** Sends a sample event immediately. */
  sendSample: SendSample;
  /** The streams of pull webhooks, and the answers of their listeners. */
  held: PullDeps;
  authenticate: Authenticate;
  /** Called after the commit of a resend. */
  onResent: (delivery: Committed) => void;
  /** Notifies all workers of changed webhooks when the transaction commits. */
  announce: (tx: Queryable, shard: number, ids: readonly number[]) => Promise<void>;
  /**
   * Called after the commit of each change and before the response: afterwards this process sends nothing with the old settings.
   */
  onChanged: (webhook: { shard: number; id: number }) => void;
};

type AddressedRequest = Pick<ApiRequest, 'params' | 'principal'>;

/** Returns the key of the webhook in the path. Throws a 404 if the path contains no valid id. */
export function keyOf({ params, principal }: AddressedRequest): Key {
  const id = parseId(params['webhook_id'] ?? '');
  if (id === undefined) throw notFound('webhook');
  return { shard: shardOf(id), id, stores: principal.stores === 'all' ? null : principal.stores };
}

/** Returns the webhook in the path. Throws a 404 if it does not exist or belongs to a store that the caller may not access. */
export async function webhookOf(sql: Sql, request: AddressedRequest): Promise<WebhookRow> {
  const row = await findWebhook(sql, keyOf(request));
  if (row === undefined) throw notFound('webhook');
  return row;
}

/**
 * Returns whether the calling client created the webhook; a pull webhook requires the same user too, because all installations of
 * the command line are one client.
 */
export function isCreator(
  { clientId, userId }: Principal,
  { client, user, isHeld }: Pick<WebhookRow, 'client' | 'user' | 'isHeld'>,
): boolean {
  return clientId !== null && clientId === client && (!isHeld || userId === user);
}

/**
 * Returns whether the caller may see the key and the request secrets: the client that created the webhook, or the owner in
 * person.
 */
export function seesKey(principal: Principal, webhook: WebhookRow): boolean {
  return isCreator(principal, webhook) || principal.owned.includes(webhook.storeId);
}

/** Returns the associated data of a webhook's sealed values: copied into another row they cannot be decrypted. */
export function sealBinding(id: number): string {
  return `webhook:${id}`;
}

/** Returns the decrypted value; null if there is none or it cannot be decrypted. */
function unseal(sealer: Sealer, id: number, sealed: Buffer | null): string | null {
  try {
    return sealed === null ? null : sealer.open(sealed, sealBinding(id));
  } catch {
    // Sealed under another HALCYON_SECRET_KEY: the webhook needs a new key.
    return null;
  }
}

/** Returns the decrypted key; null if there is none or it cannot be decrypted. */
export function openKey(
  { sealer }: Pick<WebhookDeps, 'sealer'>,
  { id, encryptionKey }: Pick<WebhookRow, 'id' | 'encryptionKey'>,
): string | null {
  return unseal(sealer, id, encryptionKey);
}

type RequestColumns = Pick<WebhookRow, 'id' | 'url' | 'headers' | 'requestSecrets'>;

/** Returns the url and the headers with their secrets; without them if they cannot be decrypted. */
export function openRequest(
  { sealer }: Pick<WebhookDeps, 'sealer'>,
  { id, url, headers, requestSecrets }: RequestColumns,
): Addressed {
  try {
    const secrets = requestSecrets === null ? null : sealer.open(requestSecrets, sealBinding(id));
    return withSecrets({ url, headers }, secrets);
  } catch {
    return { url, headers };
  }
}

/** Returns the webhook with the secrets of its url and headers decrypted. */
export function openWebhook(deps: Pick<WebhookDeps, 'sealer'>, row: WebhookRow): WebhookRow {
  return {
    ...row,
    ...openRequest(deps, row),
  };
}

/** Returns the url and the headers as columns, with their secrets sealed. */
export function sealRequest(
  { sealer }: Pick<WebhookDeps, 'sealer'>,
  id: number,
  request: Addressed,
): Omit<RequestColumns, 'id'> {
  const { url, headers, secrets } = withoutSecrets(request);
  return { url, headers, requestSecrets: secrets === null ? null : sealer.seal(secrets, sealBinding(id)) };
}

/** Returns the url and the headers as the reader may see them: secrets are masked like the key. */
export function visibleRequest(
  deps: Pick<WebhookDeps, 'sealer'>,
  webhook: WebhookRow,
  principal: Principal,
): Addressed {
  const { url, headers } = openRequest(deps, webhook);
  if (seesKey(principal, webhook)) return { url, headers };
  return { url: url === null ? null : withHiddenQuery(url, URL_LENGTH_MAX), headers: namesOf(headers) };
}

/** Returns the Document of a webhook for this caller. */
export function documentFor(
  { sealer, baseUrl }: WebhookDeps,
  stored: WebhookRow,
  { principal, now }: Pick<ApiRequest, 'principal' | 'now'>,
): Document {
  const webhook = { ...withCurrentKeys(stored, now), ...visibleRequest({ sealer }, stored, principal) };
  const isKeyVisible = seesKey(principal, webhook);
  const openIfVisible = (sealed: Buffer | null): string | null =>
    isKeyVisible ? unseal(sealer, webhook.id, sealed) : null;
  return webhookDocument(webhook, {
    baseUrl,
    now,
    isRotatable: isKeyVisible,
    isListenable: webhook.isHeld && isCreator(principal, webhook),
    encryptionKey: openIfVisible(webhook.encryptionKey),
    nextEncryptionKey: openIfVisible(webhook.nextEncryptionKey),
  });
}

/** Returns why the guard forbids the url; null if it is allowed, absent or syntactically invalid. */
export async function findForbiddenReason(
  { checkUrl }: WebhookDeps,
  url: string | null | undefined,
): Promise<string | null> {
  return url && addressFault(url) === undefined ? checkUrl(url) : null;
}
