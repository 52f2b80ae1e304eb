/**
 * Access to a webhook and to its secrets: which webhook a caller reaches, secrets sealed in the row and masked for readers who may
 * not see them, and rules for a change by such a reader: sending back the masked values keeps the stored ones, and no change may
 * send a stored secret to another url (docs/security.md, "Tokens and secrets").
 */
import { isDeepStrictEqual } from 'node:util';
import { HIDDEN_FROM_APPS, OPERATOR_CHOICES } from '#catalog/catalog.ts';
import { publicKeyOf, withCurrentKeys } from '#core/keys.ts';
import type { Changelog } from '#changelog/changelog.ts';
import type { Queryable, Sql } from '#db/pool.ts';
import type { Search } from '#db/search.ts';
import type { Committed } from '#events/publish/rows.ts';
import type { ApiRequest, AddressedRequest } from '#http/operation.ts';
import type { Accounts } from '#shards/map.ts';
import type { Document } from '#hypermedia/document.ts';
import { parseId, shardOf, type StoreKey } from '#core/ids.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { invalidValue, notFound, Problem, requiredMember, type Fault, suspensionOf } from '#core/problem.ts';
import {
  namesOf,
  withHiddenQuery,
  withoutSecrets,
  withSecrets,
  type Addressed,
  hasHiddenValue,
  type Headers,
} from '#core/request-secrets.ts';
import { callingApp, refuseSuspended, type Principal, type SufficientScopes } from '#core/principal.ts';
import { addressFault } from './webhook.ts';
import { webhookDocument } from './webhook-document.ts';
import type { Handshake } from './handshake.ts';
import type { Preview } from './history/delivery-request.ts';
import type { AnswerDelivery, Authenticate, OpenStream } from './listener-operations.ts';
import { lockSuspensions } from './app-access/app-access-sql.ts';
import { findWebhook, lockSuspensionOf, lockWebhook, type Key, type WebhookRow } from './webhook-sql.ts';
import { type Draft, type Settings, type WebhookInput, URL_LENGTH_MAX } from './webhook-fields.ts';
import type { SendSample } from './send-now.ts';

/** The limited scopes that suffice for reads of webhooks and their history, and for everything else. */
export const READ_SCOPES: SufficientScopes = ['store_read', 'webhooks'];
export const CHANGE_SCOPES: SufficientScopes = ['webhooks'];

/** A pending delivery of a webhook in its epoch, or all without `deliveryId`. */
export type Retry = { shard: number; webhookId: number; epoch: number; deliveryId: number | undefined; now: Date };

/** How a change of a webhook reaches what sends its deliveries. */
export type WebhookChanges = {
  /** Notifies all workers of changed webhooks when the transaction commits. Afterwards this process sends nothing with the old settings. */
  announce: (tx: Queryable, shard: number, ids: readonly number[]) => Promise<void>;
  /** Attempts pending deliveries at once when the transaction commits, which has locked the row of the webhook. */
  retryNow: (tx: Queryable, retry: Retry) => Promise<void>;
};

/** What makes and sends requests when a caller asks for it. */
export type SendingOnDemand = {
  /** Asks the endpoint of a new url for its consent; undefined if the operator does not require that. */
  handshake: Handshake | undefined;
  /** Makes the request of a delivery as it is sent, for display. */
  preview: Preview;
  /** Returns the number of attempts after which a delivery fails. */
  attemptsMaxOf: (profile: WebhookRow['retryProfile']) => number;
  /** Sends a sample event immediately. */
  sendSample: SendSample;
};

export type WebhookDeps = Pick<Runtime, 'config' | 'sql' | 'clock' | 'log' | 'sealer' | 'guard'> &
  WebhookChanges &
  SendingOnDemand & {
    accounts: Accounts;
    changelog: Changelog;
    search: Search;
    /** The streams of pull webhooks, and the answers of their listeners. */
    pull: { open: OpenStream; answer: AnswerDelivery };
    authenticate: Authenticate;
    /** Called after the commit of a new key for the webhook of an app, unless the app itself made the change. */
    onKeyReplaced: (webhook: { shard: number; webhookId: number; epoch: number }) => void;
    /** Called after the commit of a resend. */
    onResent: (delivery: Committed) => void;
  };

/** Returns the id of the app that calls, for statements that return only what it sees; null if the caller is none. */
export function appOf(principal: Principal): number | null {
  return callingApp(principal)?.id ?? null;
}

/** Returns the key of the webhook in the path. Throws a 404 if the path contains no valid id. */
export function keyOf({ params, principal }: AddressedRequest): Key {
  const id = parseId(params['webhook_id'] ?? '');
  if (id === undefined) throw notFound('webhook');
  const stores = principal.stores === 'all' ? null : principal.stores;
  return { shard: shardOf(id), id, stores, app: appOf(principal) };
}

/**
 * Returns the webhook in the path. Throws a 404 if it does not exist, belongs to a store that the caller may not access, or is declared by
 * another app than the one that calls, and a 403 if its store is suspended.
 */
export async function webhookOf(sql: Sql, request: AddressedRequest): Promise<WebhookRow> {
  const key = keyOf(request);
  const row = await findWebhook(sql.reads, key);
  if (row !== undefined) return row;
  const stores = [...request.principal.suspended.keys()];
  const suspended = stores.length === 0 ? undefined : await findWebhook(sql.reads, { ...key, stores });
  if (suspended !== undefined) refuseSuspended(request.principal, suspended.storeId);
  throw notFound('webhook');
}

/** Returns the webhook in the path, and locks its row until the transaction ends. Throws a 404 if the caller does not see it. */
export async function lockWebhookOf(tx: Queryable, request: AddressedRequest): Promise<WebhookRow> {
  const row = await lockWebhook(tx, keyOf(request));
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
 * person. The key of a webhook that an app declares is valid in all stores, so owners do not see it.
 */
export function seesKey(principal: Principal, webhook: WebhookRow): boolean {
  return isCreator(principal, webhook) || (!webhook.isForApp && principal.owned.includes(webhook.storeId));
}

/** Returns the 403 for what only some callers may do with a webhook that they see. */
export function forbiddenAction(message: string): Problem {
  const headers = { 'WWW-Authenticate': 'Bearer realm="halcyon", error="insufficient_scope"' };
  return new Problem(403, { code: 'insufficient_scope', message }, { headers });
}

/**
 * Returns whether the caller sees the deliveries of the webhook and what is derived from them: of the webhooks that apps declare, an app
 * sees its own, and of others for events of apps or for the operator none. Such a webhook has no other events (`webhook-item.ts`), so no
 * delivery is looked at.
 */
export function seesHistory(
  principal: Principal,
  { eventResource, isForApp, client }: Pick<WebhookRow, 'eventResource' | 'isForApp' | 'client'>,
): boolean {
  const app = appOf(principal);
  return app === null || (isForApp ? client === app : !HIDDEN_FROM_APPS.includes(eventResource ?? ''));
}

/**
 * Returns whether the caller may make Halcyon send to the webhook. The key of a webhook that an app declares is valid in all stores,
 * so only the app and an owner in person may: others would have signed with it what did not happen.
 */
export function maySendTo(principal: Principal, webhook: WebhookRow): boolean {
  if (!webhook.isForApp) return seesHistory(principal, webhook);
  return isCreator(principal, webhook) || principal.owned.includes(webhook.storeId);
}

const OF_DECLARED = 'Only the app that declares the webhook and an owner of the store in person may do this';
const OF_APPS = 'An app cannot do this with a webhook for the events of apps';

/** Throws a 403 unless the caller may make Halcyon send to the webhook. */
export function requireSending(principal: Principal, webhook: WebhookRow): void {
  if (maySendTo(principal, webhook)) return;
  throw forbiddenAction(webhook.isForApp ? OF_DECLARED : OF_APPS);
}

/** Returns the webhook in the path. Throws a 404 like `webhookOf`, and a 403 if the caller may not make Halcyon send to it. */
export async function sendingWebhookOf(sql: Sql, request: AddressedRequest): Promise<WebhookRow> {
  const webhook = await webhookOf(sql, request);
  requireSending(request.principal, webhook);
  return webhook;
}

/** Returns whether the request secrets are shown to the caller now: on pages, a recent verification is needed too. */
export function showsRequestSecrets(principal: Principal, webhook: WebhookRow): boolean {
  return seesKey(principal, webhook) && principal.mustConfirm !== true;
}

/** Throws a 409 for a webhook that an app declares: the store could otherwise change what the app is sent of other stores. */
export function requireChangeable({ isForApp }: Pick<WebhookRow, 'isForApp'>): void {
  if (!isForApp) return;
  const message =
    'The app declares this webhook for all its stores: only its developer can change it. It is deleted 30 days after the app is uninstalled';
  throw new Problem(409, { code: 'declared_by_app', message });
}

/** Returns the associated data of a webhook's sealed values: copied into another row they cannot be decrypted. */
export function sealBinding(id: number): string {
  return `webhook:${id}`;
}

/** Returns whether an app creates or has created a webhook for a user; the platform acts for itself. */
export function isOfApp(client: number | null, user: number | null): boolean {
  return client !== null && user !== null;
}

/** Returns the decrypted key; null if there is none or it cannot be decrypted. */
export function openKey(
  { sealer }: Sealing,
  { id, encryptionKey }: Pick<WebhookRow, 'id' | 'encryptionKey'>,
): string | null {
  try {
    return encryptionKey === null ? null : sealer.open(encryptionKey, sealBinding(id));
  } catch {
    // Another HALCYON_SECRET_KEY sealed it: the webhook needs a new key.
    return null;
  }
}

type Sealing = Pick<WebhookDeps, 'sealer'>;
type RequestColumns = Pick<WebhookRow, 'id' | 'url' | 'headers' | 'requestSecrets'>;

/** Returns the url and the headers with their secrets; without them if they cannot be decrypted. */
function openRequest({ sealer }: Sealing, { id, url, headers, requestSecrets }: RequestColumns): Addressed {
  if (requestSecrets === null) return { url, headers };
  try {
    return withSecrets({ url, headers }, sealer.open(requestSecrets, sealBinding(id)));
  } catch {
    return { url, headers };
  }
}

/** Returns the webhook with the secrets of its url and headers decrypted. */
export function openWebhook(deps: Sealing, row: WebhookRow): WebhookRow {
  return {
    ...row,
    ...openRequest(deps, row),
  };
}

/** Returns the url and the headers as columns, with their secrets sealed. */
export function sealRequest({ sealer }: Sealing, id: number, request: Addressed): Omit<RequestColumns, 'id'> {
  const { url, headers, secrets } = withoutSecrets(request);
  return { url, headers, requestSecrets: secrets === null ? null : sealer.seal(secrets, sealBinding(id)) };
}

/** Returns the url and the headers as the reader may see them: secrets are masked like the key. */
export function visibleRequest(deps: Sealing, webhook: WebhookRow, principal: Principal): Addressed {
  const { url, headers } = openRequest(deps, webhook);
  if (showsRequestSecrets(principal, webhook)) return { url, headers };
  return { url: url === null ? null : withHiddenQuery(url, URL_LENGTH_MAX), headers: namesOf(headers) };
}

/** Returns the Document of a webhook for this caller. */
export function documentFor(
  { sealer, config: { baseUrl, stores } }: WebhookDeps,
  stored: WebhookRow,
  { principal, now }: Pick<ApiRequest, 'principal' | 'now'>,
): Document {
  const webhook = { ...withCurrentKeys(stored, now), ...visibleRequest({ sealer }, stored, principal) };
  const isKeyVisible = seesKey(principal, webhook);
  const encryptionKey = openKey({ sealer }, webhook);
  const nextEncryptionKey = openKey({ sealer }, { id: webhook.id, encryptionKey: webhook.nextEncryptionKey });
  const document = webhookDocument(webhook, {
    baseUrl,
    now,
    isWithheld: isKeyVisible && !showsRequestSecrets(principal, webhook),
    isRotatable: isKeyVisible && !webhook.isForApp,
    isListenable: webhook.isHeld && isCreator(principal, webhook),
    isSendable: maySendTo(principal, webhook),
    encryptionKey: isKeyVisible ? encryptionKey : null,
    nextEncryptionKey: isKeyVisible ? nextEncryptionKey : null,
    publicKey: publicKeyOf(encryptionKey),
    nextPublicKey: publicKeyOf(nextEncryptionKey),
  });
  return { ...document, withheld: withheldFrom(webhook.storeId, stores) };
}

/** Returns why the guard forbids the url; null if it is allowed, absent or syntactically invalid. */
export async function findForbiddenReason(
  { guard }: Pick<WebhookDeps, 'guard'>,
  url: string | null | undefined,
): Promise<string | null> {
  return url && addressFault(url) === undefined ? guard.checkUrl(url) : null;
}

/** `isVisible`: the reader may see the secrets of `stored`. */
type StoredRequest = { stored: Addressed; isVisible: boolean };

/** Forms and XML write null as an empty string, so an empty value counts only from a reader who sees the stored values. */
const hasValue = (value: string | null, isVisible: boolean): boolean => value !== null && (isVisible || value !== '');

/** Returns the stored value of the header, or null. Header names are case-insensitive (RFC 9110 §5.1). */
const storedValue = ({ headers }: Addressed, name: string): string | null =>
  Object.entries(headers).find(([stored]) => stored.toLowerCase() === name.toLowerCase())?.[1] ?? null;

const mergeHeaders = (headers: Headers, { stored, isVisible }: StoredRequest): Headers =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      hasValue(value, isVisible) ? value : (storedValue(stored, name) ?? value),
    ]),
  );

/** Returns the input with its masked values replaced by the stored ones. */
export function withStoredSecrets(input: WebhookInput, current: StoredRequest): WebhookInput {
  const { stored } = current;
  const keepsUrl =
    input.url != null && stored.url !== null && input.url === withHiddenQuery(stored.url, URL_LENGTH_MAX);
  return {
    ...input,
    ...(keepsUrl && { url: stored.url }),
    ...(input.headers && { headers: mergeHeaders(input.headers, current) }),
  };
}

export function isSameRequest(a: Addressed, b: Addressed): boolean {
  return a.url === b.url && isDeepStrictEqual(a.headers, b.headers);
}

/** Returns a fault for each header without a value after the change: none is stored, or it cannot be decrypted. */
export function valueFaults(after: Addressed, stored: Addressed): Fault[] {
  if (isSameRequest(after, stored)) return [];
  const missing = Object.keys(after.headers).filter((name) => after.headers[name] === null);
  return missing.map((name) => requiredMember(`headers.${name}`, ': no value of this header is stored'));
}

/** Notifies the developer of the app that created a webhook if a change by another caller has replaced the key. */
export function notifyOfNewKey(
  { onKeyReplaced }: WebhookDeps,
  { principal }: Pick<ApiRequest, 'principal'>,
  before: WebhookRow,
  after: WebhookRow,
): void {
  const keys = [before, after].map(({ encryptionKey, nextEncryptionKey }) => [encryptionKey, nextEncryptionKey]);
  if (after.client === null || after.client === principal.clientId || isDeepStrictEqual(keys[0], keys[1])) return;
  onKeyReplaced({ shard: shardOf(after.id), webhookId: after.id, epoch: after.epoch });
}

/**
 * Returns whether requests go to another url after the change. A path of the same origin is another url too: another customer of
 * the host may have it, or it may repeat the request in its response.
 */
const isMoved = (before: Pick<Addressed, 'url'>, after: Pick<Addressed, 'url'>): boolean =>
  after.url !== null && after.url !== before.url;

/**
 * Returns whether a change would send the key to another url, in the format that sends it as a header. A reader who may not see
 * the key could learn it this way, and must send another key.
 */
export function revealsKey(before: Pick<Settings, 'format' | 'url'>, after: Pick<Draft, 'format' | 'url'>): boolean {
  return (
    after.format === 'partner_sitebuilder' &&
    after.url !== null &&
    (before.format !== after.format || isMoved(before, after))
  );
}

export const NEEDS_KEY = requiredMember(
  'encryption_key',
  ': this change would send the stored key, which you may not see, to another url. Send the key that your endpoint expects',
);

const NEEDS_HEADERS = requiredMember(
  'headers',
  ': this change would send the stored values, which you may not see, to another url. Send all values again, or {} to remove the headers',
);

const HIDDEN_QUERY: Fault = invalidValue(
  'url',
  'url contains masked values, which keep the stored ones only if the url is otherwise unchanged. Send the values, or omit the query',
);

/**
 * Returns faults if a reader who may not see the secrets would send them to another url, and for masked values in a url, which pages
 * show to readers who may see them, too. `sent`: the input as received.
 */
export function redirectFaults(sent: WebhookInput, after: Addressed, { stored, isVisible }: StoredRequest): Fault[] {
  const keepsValue =
    !isVisible && Object.keys(after.headers).some((name) => !hasValue(sent.headers?.[name] ?? null, false));
  const sendsHiddenQuery = after.url !== stored.url && sent.url != null && hasHiddenValue(sent.url);
  return [
    ...(isMoved(stored, after) && keepsValue ? [NEEDS_HEADERS] : []),
    ...(sendsHiddenQuery ? [HIDDEN_QUERY] : []),
  ];
}

/**
 * Throws a 403 if the app that calls is suspended, and a 409 if the app of the webhook is. Locks both against a suspension until the
 * transaction ends, so that nothing that a request of before sets up remains active.
 */
export async function requireNotSuspended(
  tx: Queryable,
  accounts: Accounts,
  { caller, ofWebhook = null }: { caller: number | null; ofWebhook?: number | null },
): Promise<void> {
  const clients = [...new Set([caller, ofWebhook])].filter((client) => client !== null);
  if (clients.length === 0) return;
  const reasons = await lockSuspensions(await accounts.locked(tx), clients);
  const status = caller !== null && reasons.has(caller) ? 403 : 409;
  for (const reason of reasons.values()) throw new Problem(status, suspensionOf('app', reason));
}

/**
 * Throws a 409 if the store is suspended, and locks it against a suspension until the transaction ends: a webhook that was created or
 * enabled under the lock is seen by the suspension.
 */
export async function requireStoreNotSuspended(tx: Queryable, store: StoreKey): Promise<void> {
  const reason = await lockSuspensionOf(tx, store);
  if (reason !== null) throw new Problem(409, suspensionOf('store', reason));
}

/** Returns the choices that the forms of a store do not offer. */
export function withheldFrom(
  storeId: number,
  { platformStore }: { platformStore?: number | undefined },
): readonly string[] {
  return storeId === platformStore ? [] : OPERATOR_CHOICES;
}
