/** Where a lane sends to, and how: the webhook's row as it is used, loaded once and dropped when the webhook changes. */
import type { ResourceType } from '#commerce/catalogue.ts';
import { readShape, type Shape } from '#commerce/shape.ts';
import type { Sealer } from '#database/seal.ts';
import type { RetryProfile } from '../policy/policy.ts';

/** A row of `webhook` with its store's domain and its `webhook_state`. */
export type TargetRow = {
  id: number;
  storeId: number;
  storeDomain: string;
  epoch: number;
  isActive: boolean;
  format: 'json' | 'partner_automation' | 'partner_sitebuilder';
  url: string | null;
  query: string | null;
  encryptionKey: Buffer | null;
  eventResource: ResourceType | null;
  headers: Readonly<Record<string, string>>;
  ratePerSecond: number | null;
  retryProfile: RetryProfile;
  consecutiveFailures: number;
  firstFailureAt: Date | null;
  pausedUntil: Date | null;
  probeAt: Date | null;
  /** An outcome demands that it is switched off, and nobody has done it yet. */
  isCondemned: boolean;
};

/** A webhook that is switched off, deleted or without url: what is pending for it with an older epoch is dead. */
type Inactive = { isActive: false; epoch: number };

export type ActiveTarget = {
  isActive: true;
  epoch: number;
  storeDomain: string;
  format: TargetRow['format'];
  url: URL;
  /** Of the url: by it connections are pooled and exchanges are counted. */
  origin: string;
  /** What shaped bodies are cached by. */
  query: string;
  shape: Shape;
  encryptionKey: string | null;
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
  const url = new URL(row.url);
  return {
    isActive: true,
    epoch: row.epoch,
    storeDomain: row.storeDomain,
    format: row.format,
    url,
    origin: url.origin,
    query: row.query ?? '',
    shape: readShape(row.query ?? '', row.eventResource),
    encryptionKey: row.encryptionKey === null ? null : sealer.open(row.encryptionKey, `webhook:${row.id}`),
    headers: row.headers,
    ratePerSecond: row.ratePerSecond,
    retryProfile: row.retryProfile,
  };
};
