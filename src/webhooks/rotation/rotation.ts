/**
 * The keys of a webhook while one takes over from another:
 *
 * ```
 *   one key ──rotate──► two: the present and the next ──overlap is over, or finished──► the next alone
 *                        │ another key is set, or the key is cleared: that one alone
 *                        └ another format: the next alone, at once
 * ```
 *
 * Pure. Whatever ends a rotation, the key that it began with does not outlive it.
 */
import { keysAt, type Rotating } from '#core/rotation.ts';
import { invalid, Problem, type Fault } from '#core/problem.ts';
import type { Settings } from '../webhook.ts';

/** As they are stored: sealed. */
export type Keys = Rotating<Buffer>;

const alone = (encryptionKey: Buffer | null): Keys => ({
  encryptionKey,
  nextEncryptionKey: null,
  rotationEndsAt: null,
});

/** What counts of stored keys: an overlap that is over leaves the next one alone, whether or not somebody has moved it. */
export const settled = <Row extends Keys>(row: Row, now: Date): Row => {
  const { current, next } = keysAt(row, now);
  return next === null ? { ...row, ...alone(current) } : row;
};

/** The keys after a change of settings that wants `wanted`: the stored bytes where it leaves the key as it is. */
export const keysAfter = (
  stored: Keys & Pick<Settings, 'format'>,
  { format }: Pick<Settings, 'format'>,
  wanted: Buffer | null,
): Keys => {
  if (wanted !== stored.encryptionKey) return alone(wanted);
  const { nextEncryptionKey, rotationEndsAt } = stored;
  if (nextEncryptionKey === null) return alone(wanted);
  // What another format does with a key is another thing than what its receiver was told to change.
  return format === stored.format
    ? { encryptionKey: wanted, nextEncryptionKey, rotationEndsAt }
    : alone(nextEncryptionKey);
};

const conflict = (code: string, message: string): Problem => new Problem(409, { code, message });

/** The keys of which the next one is alone from now on. Throws a 409 where there is none. */
export const finished = ({ nextEncryptionKey }: Keys): Keys => {
  if (nextEncryptionKey !== null) return alone(nextEncryptionKey);
  throw conflict('no_rotation', 'No rotation is under way, so there is none to finish');
};

const isTheSame: Fault = {
  code: 'invalid_value',
  message: 'encryption_key is the key that the webhook has: choose another',
  field: 'encryption_key',
};

const isOfThePlatform: Fault = {
  code: 'required',
  message:
    'encryption_key is required when format is partner_sitebuilder: it is the token that the other platform gave you',
  field: 'encryption_key',
};

/** What is asked for: the new key, or null for one that is made up; and the present one, null where nobody can read it. */
export type Asked = { key: string | null; present: string | null };

/** Throws where no rotation can begin: a 409 for what stands there, a 400 for what was sent. */
export const checkBeginning = (stored: Keys & Pick<Settings, 'format'>, { key, present }: Asked): void => {
  // Where it cannot be read any more, nothing could be signed with it either.
  if (present === null) throw conflict('no_key', 'The webhook has no encryption_key to rotate: give it one by PATCH');
  if (stored.nextEncryptionKey !== null) {
    throw conflict(
      'rotation_under_way',
      'A rotation is under way: send {"finish":true} to end it now, and then rotate again',
    );
  }
  if (key === null && stored.format === 'partner_sitebuilder') throw invalid(isOfThePlatform);
  if (key === present) throw invalid(isTheSame);
};
