/**
 * The delivery target of a webhook: its row in the form in which attempts use it, loaded once and discarded when the
 * webhook changes.
 */
import type { ResourceType } from '#catalog/catalog.ts';
import { storedShape, type Shape } from '#catalog/shape.ts';
import type { Sealer } from '#db/seal.ts';
import { isLoopback } from '#core/loopback.ts';
import { withSecrets, type Headers } from '#core/request-secrets.ts';
import type { Rotating } from '#core/keys.ts';
import { formats, type FormatName } from './formats.ts';
import { maskOf, type Mask } from './mask.ts';

/** How long failed deliveries are retried: for an hour, or for three days. */
export type RetryProfile = 'hour' | 'long';

/** A row of `webhook` with its store's domain and its `webhook_state`. */
export type TargetRow = Rotating<Buffer> & {
  id: number;
  /** The app whose keys these are, of a webhook that an app declares; null for other webhooks, which have their own key. */
  appOfKey: number | null;
  storeId: number;
  storeDomain: string;
  epoch: number;
  revision: number;
  isActive: boolean;
  format: FormatName;
  url: string | null;
  /** A pull webhook: it has no url and no lane. */
  isHeld: boolean;
  query: string | null;
  eventResource: ResourceType | null;
  headers: Headers;
  requestSecrets: Buffer | null;
  ratePerSecond: number | null;
  retryProfile: RetryProfile;
  isOrdered: boolean;
  consecutiveFailures: number;
  firstFailureAt: Date | null;
  /** The store was warned about its failures. */
  isWarned: boolean;
  /** It has a `webhook_state` row without failures. */
  hasSucceeded: boolean;
  pausedUntil: Date | null;
  probeAt: Date | null;
  /** An outcome requires that it is disabled, which is not done yet. */
  isPendingDisable: boolean;
};

/** A webhook that is disabled, deleted or without url. Its pending deliveries of older epochs have failed. */
type Inactive = { isActive: false; epoch: number };

/** The current key is chosen when an attempt is sent, because a target may be in memory for hours. */
export type ActiveTarget = Rotating<string> & {
  isActive: true;
  epoch: number;
  /** With the store's domain, detects a changed webhook. */
  revision: number;
  storeDomain: string;
  format: FormatName;
  url: URL;
  /** The origin of the url: the key of connection pools and quotas. */
  origin: string;
  /** The cache key of shaped bodies. */
  query: string;
  shape: Shape;
  /** Bodies are encrypted if there is a key. */
  isEncrypted: boolean;
  headers: Readonly<Record<string, string>>;
  /** Finds the secrets above in responses that repeat them. */
  mask: Mask | undefined;
  ratePerSecond: number | null;
  retryProfile: RetryProfile;
  /** A delivery waits until the earlier ones of its resource have ended. */
  isOrdered: boolean;
};

export type Target = ActiveTarget | Inactive;

/**
 * The target of an unusable row, for example if its key cannot be decrypted. Its deliveries wait, because no epoch is
 * older.
 */
export const UNUSABLE: Target = { isActive: false, epoch: Number.NEGATIVE_INFINITY };

/** Returns the target of a webhook row; `undefined` is a deleted webhook, for which every epoch is older. */
export function targetOf(row: TargetRow | undefined, sealer: Sealer): Target {
  if (row === undefined) return { isActive: false, epoch: Number.POSITIVE_INFINITY };
  if (!row.isActive || row.url === null) return { isActive: false, epoch: row.epoch };
  return activeTarget(row, sealer);
}

/**
 * Returns whether a body sent to the URL could be read on the way: plain http to another machine. Whether loopback is
 * allowed at all is up to the guard.
 */
export function isReadable({ protocol, hostname }: URL): boolean {
  return protocol === 'http:' && !isLoopback(hostname);
}

/** Returns the target; a pull webhook's destination is `baseUrl`. Throws if the key or the secrets of the request cannot be decrypted. */
export function activeTarget(row: TargetRow, sealer: Sealer, baseUrl = ''): ActiveTarget {
  const openBound = (sealed: Buffer | null, boundTo: string) => (sealed === null ? null : sealer.open(sealed, boundTo));
  const open = (sealed: Buffer | null) => openBound(sealed, `webhook:${row.id}`);
  const openKey = (sealed: Buffer | null) =>
    row.appOfKey === null ? open(sealed) : openBound(sealed, `app_webhook:${row.appOfKey}`);
  const request = withSecrets(row, open(row.requestSecrets));
  const url = new URL(row.isHeld ? baseUrl : (request.url ?? ''));
  const encryptionKey = openKey(row.encryptionKey);
  const nextEncryptionKey = openKey(row.nextEncryptionKey);
  return {
    isActive: true,
    epoch: row.epoch,
    revision: row.revision,
    storeDomain: row.storeDomain,
    format: row.format,
    url,
    origin: url.origin,
    query: row.query ?? '',
    shape: storedShape(row.query ?? '', row.eventResource),
    encryptionKey,
    nextEncryptionKey,
    rotationEndsAt: row.rotationEndsAt,
    isEncrypted: formats[row.format].isEncrypted && isReadable(url),
    headers: request.headers,
    mask: maskOf({ url, headers: request.headers, encryptionKey, nextEncryptionKey }),
    ratePerSecond: row.ratePerSecond,
    retryProfile: row.retryProfile,
    isOrdered: row.isOrdered,
  };
}
