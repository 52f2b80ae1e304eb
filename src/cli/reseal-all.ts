/** Reseals all secrets of an installation with one key. */
import type { Sql } from '#db/pool.ts';
import { reseal, type Resealed } from '#db/reseal.ts';
import { createSealer, keyIdOf, adoptSealingKey } from '#db/seal.ts';
import { createAnswerVault } from '#http/idempotency-vault.ts';
import type { Keys } from '#core/keys.ts';
import { createAppVault } from '#identity/accounts/factors/second-factor.ts';
import { createAppKeyVault } from '#webhooks/app-access/declaration.ts';
import { createKeyVault } from '#webhooks/webhook-vault.ts';
import { createAddressVault } from '#shards/addresses.ts';

/** `isAdopted`: the key is now that of all databases, so no process without it starts. */
export type Rekeyed = Resealed & { isAdopted: boolean };

type ResealAllOptions = {
  /** The other databases of the map of shards. */
  others?: readonly Sql[];
  /** The pause before rows that were locked or changed are looked for again. */
  pause: () => Promise<void>;
  isStopped: () => boolean;
  onProgress: (done: number, total: number) => void;
};

const sum = (counts: Iterable<number>): number => [...counts].reduce((all, count) => all + count, 0);

/** Adds up two passes; the second pass finds only rows that were sealed after the end of the first. */
const combine = (first: Resealed, second: Resealed): Resealed => ({
  ...second,
  counts: new Map([...first.counts].map(([name, count]) => [name, count + (second.counts.get(name) ?? 0)])),
  late: first.late + sum(second.counts.values()),
});

/**
 * Reseals with the first key all secrets under other keys. Then the first key becomes the key of all databases, and a second pass finds
 * secrets that were sealed in between.
 */
export async function resealAll(
  sql: Sql,
  keys: Keys,
  { onProgress, others = [], ...rest }: ResealAllOptions,
): Promise<Rekeyed> {
  const [key] = keys;
  const databases = [sql, ...others];
  const vaults = [
    ...databases.flatMap((one) => [createKeyVault(one), createAppKeyVault(one), createAnswerVault(one)]),
    createAppVault(sql),
    createAddressVault(sql),
  ];
  const total = sum(await Promise.all(vaults.map((vault) => vault.count(keyIdOf(key)))));
  let done = 0;
  const onPage = (rows: number): void => {
    done += rows;
    onProgress(done, Math.max(done, total));
  };
  const options = { key, sealer: createSealer(...keys), onPage, ...rest };
  const first = await reseal(vaults, options);
  if (first.end !== 'done' || first.late > 0) return { ...first, isAdopted: false };
  for (const one of databases) await adoptSealingKey(one, key);
  return { ...combine(first, await reseal(vaults, options)), isAdopted: true };
}
