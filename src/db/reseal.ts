/**
 * Secrets that are sealed with another key are sealed anew while everybody goes on: a page at a time in the order of the
 * primary key, and replaced where nobody has changed them meanwhile. What is sealed with the right key is passed over, so
 * that a run that was broken off is gone on with by the next.
 */
import { keyIdOf, type Sealer } from './seal.ts';

/** A row with the secrets that it holds, all of them sealed to the same name. */
type SealedRow = { id: string; boundTo: string; envelopes: readonly (Buffer | null)[] };
type Replacement = SealedRow & { renewed: readonly (Buffer | null)[] };

/** What a room keeps sealed. */
export type Vault = {
  name: string;
  /** How many rows have an envelope that another key than this one made. */
  count: (keyId: Buffer) => Promise<number>;
  /** The next of those rows, in the order of the primary key. */
  page: (asked: { keyId: Buffer; after: string | undefined; limitRows: number }) => Promise<SealedRow[]>;
  /**
   * Writes `renewed` where the row still has `envelopes` and nobody has it locked; answers the ids of those it wrote. No
   * other column changes.
   */
  replace: (rows: readonly Replacement[]) => Promise<string[]>;
};

export type Resealed = {
  /** Rows that were sealed anew, by the name of the vault. */
  counts: ReadonlyMap<string, number>;
  /** Whose secrets no key opens: they are left as they are. */
  unopened: readonly string[];
  /** Rows that somebody sealed with another key after they were passed. */
  late: number;
  /** `left`: rows stayed locked, or changed each time. */
  end: 'done' | 'left' | 'stopped';
};

type Given = {
  key: Buffer;
  /** Opens everything and seals with `key`. */
  sealer: Sealer;
  pause: () => Promise<void>;
  isStopped: () => boolean;
  onPage: (rows: number) => void;
};

/** A page of answers may have some MB; a page of keys takes some ms. */
const PAGE_ROWS = 200;
/** So often what was locked or changed is looked for again. */
const ROUNDS_MAX = 25;

type Renewal = { boundTo: string; replacement: Replacement | undefined; isWhole: boolean };

/** What opens is sealed anew, what does not stays as it is. */
const renew = (sealer: Sealer, row: SealedRow): Renewal => {
  let [isWhole, changes] = [true, false];
  const renewed = row.envelopes.map((envelope) => {
    if (envelope === null || sealer.isCurrent(envelope)) return envelope;
    try {
      const sealed = sealer.seal(sealer.open(envelope, row.boundTo), row.boundTo);
      changes = true;
      return sealed;
    } catch {
      isWhole = false;
      return envelope;
    }
  });
  return { boundTo: row.boundTo, replacement: changes ? { ...row, renewed } : undefined, isWhole };
};

class Run {
  readonly counts = new Map<string, number>();
  readonly unopened = new Set<string>();
  /** Found and not written in the round before, by what they are sealed to. */
  #missed = new Set<string>();
  #rounds = 0;
  late = 0;

  /** Looks through all vaults once; answers whether there was nothing to do. */
  async round(vaults: readonly Vault[], given: Given): Promise<boolean> {
    const missed = new Set<string>();
    let found = 0;
    for (const vault of vaults) {
      for await (const rows of pagesOf(vault, given)) {
        const renewals = rows.map((row) => renew(given.sealer, row));
        for (const { boundTo, isWhole } of renewals) if (!isWhole) this.unopened.add(boundTo);
        const replacements = renewals.flatMap(({ replacement }) => replacement ?? []);
        const written = new Set(replacements.length === 0 ? [] : await vault.replace(replacements));
        for (const { id, boundTo } of replacements) {
          if (!written.has(id)) missed.add(boundTo);
          if (this.#rounds > 0 && !this.#missed.has(boundTo)) this.late += 1;
        }
        found += replacements.length;
        this.counts.set(vault.name, (this.counts.get(vault.name) ?? 0) + written.size);
        given.onPage(written.size);
      }
    }
    this.#missed = missed;
    this.#rounds += 1;
    return found === 0;
  }
}

async function* pagesOf(vault: Vault, { key, isStopped }: Given): AsyncGenerator<SealedRow[]> {
  let after: string | undefined;
  while (!isStopped()) {
    const rows = await vault.page({ keyId: keyIdOf(key), after, limitRows: PAGE_ROWS });
    if (rows.length > 0) yield rows;
    if (rows.length < PAGE_ROWS) return;
    after = rows.at(-1)?.id;
  }
}

/** Ends `done` after a round that found nothing to do, which is the proof that nothing is left but what does not open. */
export const reseal = async (vaults: readonly Vault[], given: Given): Promise<Resealed> => {
  const run = new Run();
  const ended = (end: Resealed['end']): Resealed => {
    return { counts: run.counts, unopened: [...run.unopened], late: run.late, end };
  };
  for (let rounds = 0; rounds < ROUNDS_MAX; rounds += 1) {
    if (rounds > 1) await given.pause();
    const isClean = await run.round(vaults, given);
    if (given.isStopped()) return ended('stopped');
    if (isClean) return ended('done');
  }
  return ended('left');
};
