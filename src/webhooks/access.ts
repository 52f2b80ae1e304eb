/** What the operations on webhooks share: the settings they are given, and who may reach and see what. */
import type { Changelog } from '#changelog/changelog.ts';
import type { Sql } from '#database/pool.ts';
import type { Search } from '#database/search.ts';
import type { Sealer } from '#database/seal.ts';
import type { ApiRequest } from '#http/operation.ts';
import type { Document } from '#hypermedia/document.ts';
import { parseId, shardOf } from '#kernel/ids.ts';
import { notFound } from '#kernel/problem.ts';
import type { Principal } from '#kernel/principal.ts';
import { addressFault } from './address.ts';
import { webhookDocument } from './document.ts';
import { findWebhook, type Key, type WebhookRow } from './queries.ts';

export type WebhookDeps = {
  sql: Sql;
  changelog: Changelog;
  search: Search;
  sealer: Sealer;
  baseUrl: string;
  /** The payload versions a webhook may have. */
  versions: readonly string[];
  webhooksPerStore: number;
  /** The prefix of the operator's own delivery headers, such as `Service`. */
  headerPrefix: string;
  /** Why a delivery may not go to this url; null where it may. */
  judgeUrl: (url: string) => Promise<string | null>;
  /** Called after the commit of each change and awaited before the answer. */
  onChanged: (webhook: { shard: number; id: number }) => Promise<void>;
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

/** The client that made a webhook sees its key, and so does the store's owner in person. */
export const seesKey = ({ clientId, owned }: Principal, webhook: WebhookRow): boolean =>
  (clientId !== null && clientId === webhook.client) || owned.includes(webhook.storeId);

/** What an encryption key is sealed to: a sealed key copied into another row does not open there. */
export const sealedTo = (id: number): string => `webhook:${id}`;

export const show = (
  { sealer, baseUrl }: WebhookDeps,
  webhook: WebhookRow,
  { principal, now }: Pick<ApiRequest, 'principal' | 'now'>,
): Document => {
  const sealed = seesKey(principal, webhook) ? webhook.encryptionKey : null;
  const encryptionKey = sealed === null ? null : sealer.open(sealed, sealedTo(webhook.id));
  return webhookDocument(webhook, { baseUrl, now, encryptionKey });
};

/** What the guard says of a url that is sound otherwise; null where there is nothing to say. */
export const judge = async ({ judgeUrl }: WebhookDeps, url: string | null | undefined): Promise<string | null> =>
  url && addressFault(url) === undefined ? judgeUrl(url) : null;
