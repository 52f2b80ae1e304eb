/** What the operations on webhooks share: the settings they are given, and who may reach and see what. */
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
import { settled } from './rotation/rotation.ts';
import { URL_LENGTH_MAX } from './schema.ts';
import type { SendSample } from './test-delivery.ts';

type Held = { open: OpenStream; answer: AnswerDelivery };

export type WebhookDeps = {
  sql: Sql;
  changelog: Changelog;
  search: Search;
  sealer: Sealer;
  baseUrl: string;
  /** The payload versions a webhook may have. */
  versions: readonly string[];
  webhooksPerStore: number;
  /** For how long a key that is rotated counts beside the new one. */
  keyOverlapHours: number;
  /** The prefix of the operator's own delivery headers, such as `Service`. */
  headerPrefix: string;
  /** Why a delivery may not go to this url; null where it may. */
  judgeUrl: (url: string) => Promise<string | null>;
  /** Makes the request of a delivery as it is sent, for who looks at it. */
  preview: Preview;
  /** Sends a sample event at once. */
  sendSample: SendSample;
  /** Who listens to held webhooks, and what they answer. */
  held: Held;
  authenticate: Authenticate;
  /** Told of a delivery that is sent again, after its commit. */
  onResent: (delivery: Committed) => void;
  /** Tells all who send, when the transaction of the change commits. */
  announce: (tx: Queryable, shard: number, ids: readonly number[]) => Promise<void>;
  /** Called after the commit of each change, before the answer: this process sends nothing more by the old settings. */
  onChanged: (webhook: { shard: number; id: number }) => void;
};

type Asked = Pick<ApiRequest, 'params' | 'principal'>;

/** Where the webhook of the address is looked for. Throws a 404 where the address has no id. */
export const keyOf = ({ params, principal }: Asked): Key => {
  const id = parseId(params['webhook_id'] ?? '');
  if (id === undefined) throw notFound('webhook');
  return { shard: shardOf(id), id, stores: principal.stores === 'all' ? null : principal.stores };
};

/** The webhook of the address. Throws a 404 where there is none or it is of a store that the caller does not reach. */
export const webhookOf = async (sql: Sql, asked: Asked): Promise<WebhookRow> => {
  const row = await findWebhook(sql, keyOf(asked));
  if (row === undefined) throw notFound('webhook');
  return row;
};

/**
 * Whether the asking client made the webhook, and a held one for the same person: all command lines are one client, and what is
 * held for one of its people is nobody else's.
 */
export const isMaker = (
  { clientId, userId }: Principal,
  { client, user, isHeld }: Pick<WebhookRow, 'client' | 'user' | 'isHeld'>,
): boolean => clientId !== null && clientId === client && (!isHeld || userId === user);

/** Whoever made a webhook sees its key, and so does the store's owner in person. */
export const seesKey = (principal: Principal, webhook: WebhookRow): boolean =>
  isMaker(principal, webhook) || principal.owned.includes(webhook.storeId);

/** What an encryption key is sealed to: a sealed key copied into another row does not open there. */
export const sealedTo = (id: number): string => `webhook:${id}`;

/** As it was given; null where there is none, and where nobody can read it any more. */
const read = (sealer: Sealer, id: number, sealed: Buffer | null): string | null => {
  try {
    return sealed === null ? null : sealer.open(sealed, sealedTo(id));
  } catch {
    // Sealed under another HALCYON_SECRET_KEY: a new key is what mends that.
    return null;
  }
};

/** The key as it was given; null where there is none, and where nobody can read it any more. */
export const opened = (
  { sealer }: Pick<WebhookDeps, 'sealer'>,
  { id, encryptionKey }: Pick<WebhookRow, 'id' | 'encryptionKey'>,
): string | null => read(sealer, id, encryptionKey);

type Secretive = Pick<WebhookRow, 'id' | 'url' | 'headers' | 'requestSecrets'>;

/** Returns the url and the headers as they were given; as the row shows them where their secrets cannot be opened any more. */
export const openedRequest = (
  { sealer }: Pick<WebhookDeps, 'sealer'>,
  { id, url, headers, requestSecrets }: Secretive,
): Addressed => {
  try {
    const secrets = requestSecrets === null ? null : sealer.open(requestSecrets, sealedTo(id));
    return withSecrets({ url, headers }, secrets);
  } catch {
    return { url, headers };
  }
};

/** Returns the webhook with its url and its headers opened. */
export const openedWebhook = (deps: Pick<WebhookDeps, 'sealer'>, row: WebhookRow): WebhookRow => ({
  ...row,
  ...openedRequest(deps, row),
});

/** Returns the url and the headers as a row has them. */
export const sealedRequest = (
  { sealer }: Pick<WebhookDeps, 'sealer'>,
  id: number,
  request: Addressed,
): Omit<Secretive, 'id'> => {
  const { url, headers, secrets } = withoutSecrets(request);
  return { url, headers, requestSecrets: secrets === null ? null : sealer.seal(secrets, sealedTo(id)) };
};

/** Returns the url and the headers as the reader is shown them: without their secrets where the key is hidden too. */
export const shownRequest = (
  deps: Pick<WebhookDeps, 'sealer'>,
  webhook: WebhookRow,
  principal: Principal,
): Addressed => {
  const { url, headers } = openedRequest(deps, webhook);
  if (seesKey(principal, webhook)) return { url, headers };
  return { url: url === null ? null : withHiddenQuery(url, URL_LENGTH_MAX), headers: namesOf(headers) };
};

export const show = (
  { sealer, baseUrl }: WebhookDeps,
  stored: WebhookRow,
  { principal, now }: Pick<ApiRequest, 'principal' | 'now'>,
): Document => {
  const webhook = { ...settled(stored, now), ...shownRequest({ sealer }, stored, principal) };
  const sees = seesKey(principal, webhook);
  const shown = (sealed: Buffer | null): string | null => (sees ? read(sealer, webhook.id, sealed) : null);
  return webhookDocument(webhook, {
    baseUrl,
    now,
    isRotatable: sees,
    isListenable: webhook.isHeld && isMaker(principal, webhook),
    encryptionKey: shown(webhook.encryptionKey),
    nextEncryptionKey: shown(webhook.nextEncryptionKey),
  });
};

/** What the guard says of a url that is sound otherwise; null where there is nothing to say. */
export const judge = async ({ judgeUrl }: WebhookDeps, url: string | null | undefined): Promise<string | null> =>
  url && addressFault(url) === undefined ? judgeUrl(url) : null;
