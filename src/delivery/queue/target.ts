/** Where a lane sends to, and how: the webhook's row as it is used, loaded once and dropped when the webhook changes. */
import type { ResourceType } from '#catalog/catalog.ts';
import { readShape, type Shape } from '#catalog/shape.ts';
import type { Sealer } from '#db/seal.ts';
import { withSecrets, type Headers } from '#core/request-secrets.ts';
import type { Rotating } from '#core/rotation.ts';
import { isReadable } from '../attempt/encrypt.ts';
import { formats, type FormatName } from '../attempt/formats/formats.ts';
import type { RetryProfile } from '../policy/policy.ts';

/** A row of `webhook` with its store's domain and its `webhook_state`. */
export type TargetRow = Rotating<Buffer> & {
  id: number;
  storeId: number;
  storeDomain: string;
  epoch: number;
  revision: number;
  isActive: boolean;
  format: FormatName;
  url: string | null;
  /** It has no url, and no lane. */
  isHeld: boolean;
  query: string | null;
  eventResource: ResourceType | null;
  headers: Headers;
  requestSecrets: Buffer | null;
  ratePerSecond: number | null;
  retryProfile: RetryProfile;
  consecutiveFailures: number;
  firstFailureAt: Date | null;
  /** The store was told that it fails. */
  isWarned: boolean;
  /** It has a `webhook_state`, and does not fail. */
  hasSucceeded: boolean;
  pausedUntil: Date | null;
  probeAt: Date | null;
  /** An outcome demands that it is switched off, and nobody has done it yet. */
  isPendingDisable: boolean;
};

/** A webhook that is switched off, deleted or without url: what is pending for it with an older epoch is dead. */
type Inactive = { isActive: false; epoch: number };

/** Which of its keys counts is asked when it is sent: a target may be in memory for hours. */
export type ActiveTarget = Rotating<string> & {
  isActive: true;
  epoch: number;
  /** By it, and the store's domain, it is told whether this is how the webhook still is. */
  revision: number;
  storeDomain: string;
  format: FormatName;
  url: URL;
  /** Of the url: by it connections are pooled and exchanges are counted. */
  origin: string;
  /** What shaped bodies are cached by. */
  query: string;
  shape: Shape;
  /** What goes there is encrypted, if there is a key. */
  isEncrypted: boolean;
  headers: Readonly<Record<string, string>>;
  ratePerSecond: number | null;
  retryProfile: RetryProfile;
};

export type Target = ActiveTarget | Inactive;

/** Of a webhook whose row cannot be used: its key does not open, say. What it has waits until it can, and ends with no epoch. */
export const UNUSABLE: Target = { isActive: false, epoch: Number.NEGATIVE_INFINITY };

/** The target a webhook's row makes; `undefined` is a webhook that was deleted, which is past every epoch. */
export const targetOf = (row: TargetRow | undefined, sealer: Sealer): Target => {
  if (row === undefined) return { isActive: false, epoch: Number.POSITIVE_INFINITY };
  if (!row.isActive || row.url === null) return { isActive: false, epoch: row.epoch };
  return activeTarget(row, sealer);
};

/** `baseUrl`: where a held one goes to. Throws where the key or the secrets of the request do not open. */
export const activeTarget = (row: TargetRow, sealer: Sealer, baseUrl = ''): ActiveTarget => {
  const open = (sealed: Buffer | null) => (sealed === null ? null : sealer.open(sealed, `webhook:${row.id}`));
  const request = withSecrets(row, open(row.requestSecrets));
  const url = new URL(row.isHeld ? baseUrl : (request.url ?? ''));
  return {
    isActive: true,
    epoch: row.epoch,
    revision: row.revision,
    storeDomain: row.storeDomain,
    format: row.format,
    url,
    origin: url.origin,
    query: row.query ?? '',
    shape: readShape(row.query ?? '', row.eventResource),
    encryptionKey: open(row.encryptionKey),
    nextEncryptionKey: open(row.nextEncryptionKey),
    rotationEndsAt: row.rotationEndsAt,
    isEncrypted: formats[row.format].isEncrypted && isReadable(url),
    headers: request.headers,
    ratePerSecond: row.ratePerSecond,
    retryProfile: row.retryProfile,
  };
};
