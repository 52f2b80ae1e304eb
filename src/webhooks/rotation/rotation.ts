/**
 * The keys of a webhook during a rotation, as pure functions:
 *
 * ```
 *   one key ──rotate──► current and next key ──overlap ended, or finished──► only the next key
 *                        │ key set or cleared: only that one
 *                        └ format changed: only the next key
 * ```
 *
 * The current key is removed whenever a rotation ends.
 */
import { keysAt, type Rotating } from '#core/rotation.ts';
import { invalid, Problem, type Fault } from '#core/problem.ts';
import type { Settings } from '../webhook.ts';

/** Sealed keys, as stored. */
export type Keys = Rotating<Buffer>;

const singleKey = (encryptionKey: Buffer | null): Keys => ({
  encryptionKey,
  nextEncryptionKey: null,
  rotationEndsAt: null,
});

/** Returns the row with the keys valid at `now`: after the overlap only the next key, even if the purge has not moved it yet. */
export function withCurrentKeys<Row extends Keys>(row: Row, now: Date): Row {
  const { current, next } = keysAt(row, now);
  return next === null ? { ...row, ...singleKey(current) } : row;
}

/** Returns the keys after a change of settings. `newKey` is the stored key if the change keeps it. */
export function keysAfterUpdate(
  stored: Keys & Pick<Settings, 'format'>,
  { format }: Pick<Settings, 'format'>,
  newKey: Buffer | null,
): Keys {
  if (newKey !== stored.encryptionKey) return singleKey(newKey);
  const { nextEncryptionKey, rotationEndsAt } = stored;
  if (nextEncryptionKey === null) return singleKey(newKey);
  // Another format uses the key differently, so the overlap makes no sense there.
  return format === stored.format
    ? { encryptionKey: newKey, nextEncryptionKey, rotationEndsAt }
    : singleKey(nextEncryptionKey);
}

const conflict = (code: string, message: string): Problem => new Problem(409, { code, message });

/** Returns the next key as the only one. Throws a 409 if no rotation is active. */
export function finishRotation({ nextEncryptionKey }: Keys): Keys {
  if (nextEncryptionKey !== null) return singleKey(nextEncryptionKey);
  throw conflict('no_rotation', 'No rotation is active');
}

const SAME_KEY: Fault = {
  code: 'invalid_value',
  message: 'encryption_key is the current key: choose another',
  field: 'encryption_key',
};

const PLATFORM_TOKEN_REQUIRED: Fault = {
  code: 'required',
  message: 'encryption_key is required when format is partner_sitebuilder: it is the API token of that platform',
  field: 'encryption_key',
};

/**
 * `key`: the requested key, null to generate one. `present`: the current key, null if there is none or it cannot be decrypted.
 */
export type RequestedKey = { key: string | null; present: string | null };

/** Throws if no rotation can begin: a 409 because of the stored keys, a 400 because of the requested key. */
export function checkCanRotate(stored: Keys & Pick<Settings, 'format'>, { key, present }: RequestedKey): void {
  // A key that cannot be decrypted cannot sign during the overlap either.
  if (present === null) throw conflict('no_key', 'The webhook has no encryption_key to rotate: set one by PATCH');
  if (stored.nextEncryptionKey !== null) {
    throw conflict('rotation_under_way', 'A rotation is active: send {"finish":true} to end it, then rotate again');
  }
  if (key === null && stored.format === 'partner_sitebuilder') throw invalid(PLATFORM_TOKEN_REQUIRED);
  if (key === present) throw invalid(SAME_KEY);
}
