/** Everything that Halcyon keeps sealed, brought under one key. */
import type { Sql } from '#db/pool.ts';
import { reseal, type Resealed } from '#db/reseal.ts';
import { createSealer, keyIdOf } from '#db/seal.ts';
import { adoptSealingKey } from '#db/sealing-key.ts';
import { createAnswerVault } from '#http/idempotency/vault.ts';
import type { Keys } from '#core/keys.ts';
import { createKeyVault } from '#webhooks/vault.ts';

/** `isAdopted`: from now on no process starts that does not have the key. */
export type Rekeyed = Resealed & { isAdopted: boolean };

type Given = {
  /** Awaited before what was locked or has changed is looked for again. */
  pause: () => Promise<void>;
  isStopped: () => boolean;
  onProgress: (done: number, total: number) => void;
};

const sum = (counts: Iterable<number>): number => [...counts].reduce((all, count) => all + count, 0);

/** What the second look found was sealed after the first had ended with nothing left. */
const plus = (first: Resealed, second: Resealed): Resealed => ({
  ...second,
  counts: new Map([...first.counts].map(([name, count]) => [name, count + (second.counts.get(name) ?? 0)])),
  late: first.late + sum(second.counts.values()),
});

/**
 * Seals with the first of the keys what the others open. When nothing is left, the first becomes the database's; and then
 * it is looked once more, for what came between the two.
 */
export const sealAnew = async (sql: Sql, keys: Keys, { onProgress, ...given }: Given): Promise<Rekeyed> => {
  const [key] = keys;
  const vaults = [createKeyVault(sql), createAnswerVault(sql)];
  const total = sum(await Promise.all(vaults.map((vault) => vault.count(keyIdOf(key)))));
  let done = 0;
  const onPage = (rows: number): void => {
    done += rows;
    onProgress(done, Math.max(done, total));
  };
  const asked = { key, sealer: createSealer(...keys), onPage, ...given };
  const first = await reseal(vaults, asked);
  if (first.end !== 'done' || first.late > 0) return { ...first, isAdopted: false };
  await adoptSealingKey(sql, key);
  return { ...plus(first, await reseal(vaults, asked)), isAdopted: true };
};
