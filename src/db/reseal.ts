/**
 * Reseals secrets with the current key while all processes run: page by page in primary key order, with an update only if the row
 * has not changed. Rows under the current key are skipped, so a run continues an interrupted one.
 */
import { keyIdOf, type Sealer } from './seal.ts';

/** A row with its sealed secrets, all bound to the same name. */
type SealedRow = { id: string; boundTo: string; envelopes: readonly (Buffer | null)[] };
type Replacement = SealedRow & { renewed: readonly (Buffer | null)[] };

/** The sealed secrets of one module. */
export type Vault = {
  name: string;
  /** Returns the number of rows with an envelope of another key than this one. */
  count: (keyId: Buffer) => Promise<number>;
  /** Returns the next page of those rows, in primary key order. */
  page: (request: { keyId: Buffer; after: string | undefined; limitRows: number }) => Promise<SealedRow[]>;
  /**
   * Writes `renewed` if the row still has `envelopes` and is not locked, and returns the ids of the written rows. No other column
   * changes.
   */
  replace: (rows: readonly Replacement[]) => Promise<string[]>;
};

export type Resealed = {
  /** Resealed rows by the name of the vault. */
  counts: ReadonlyMap<string, number>;
  /** Names of rows with secrets that no key opens; they stay unchanged. */
  unopened: readonly string[];
  /** Rows that another process sealed with another key after this run had passed them. */
  late: number;
  /** `incomplete`: rows stayed locked, or changed in every round. */
  end: 'done' | 'incomplete' | 'stopped';
};

type ResealOptions = {
  key: Buffer;
  /** Opens with all keys and seals with `key`. */
  sealer: Sealer;
  pause: () => Promise<void>;
  isStopped: () => boolean;
  onPage: (rows: number) => void;
};

/** A page of stored responses may have a few MB; a page of keys takes a few ms. */
const PAGE_ROWS = 200;
/** Limits the rounds that look for rows that were locked or changed. */
const ROUNDS_MAX = 25;

type Renewal = { boundTo: string; replacement: Replacement | undefined; isComplete: boolean };

/** Reseals the envelopes of a row that can be opened; the others stay unchanged. */
function renew(sealer: Sealer, row: SealedRow): Renewal {
  let [isComplete, changes] = [true, false];
  const renewed = row.envelopes.map((envelope) => {
    if (envelope === null || sealer.isCurrent(envelope)) return envelope;
    try {
      const sealed = sealer.seal(sealer.open(envelope, row.boundTo), row.boundTo);
      changes = true;
      return sealed;
    } catch {
      isComplete = false;
      return envelope;
    }
  });
  return { boundTo: row.boundTo, replacement: changes ? { ...row, renewed } : undefined, isComplete };
}

class ResealRun {
  readonly counts = new Map<string, number>();
  readonly unopened = new Set<string>();
  /** Rows of the previous round that were found but not written, by their `boundTo`. */
  #unwritten = new Set<string>();
  #rounds = 0;
  late = 0;

  /** Processes all vaults once; returns whether there was nothing to do. */
  async round(vaults: readonly Vault[], options: ResealOptions): Promise<boolean> {
    const unwritten = new Set<string>();
    let found = 0;
    for (const vault of vaults) {
      for await (const rows of pagesOf(vault, options)) {
        const renewals = rows.map((row) => renew(options.sealer, row));
        for (const { boundTo, isComplete } of renewals) if (!isComplete) this.unopened.add(boundTo);
        const replacements = renewals.flatMap(({ replacement }) => replacement ?? []);
        const written = new Set(replacements.length === 0 ? [] : await vault.replace(replacements));
        for (const { id, boundTo } of replacements) {
          if (!written.has(id)) unwritten.add(boundTo);
          if (this.#rounds > 0 && !this.#unwritten.has(boundTo)) this.late += 1;
        }
        found += replacements.length;
        this.counts.set(vault.name, (this.counts.get(vault.name) ?? 0) + written.size);
        options.onPage(written.size);
      }
    }
    this.#unwritten = unwritten;
    this.#rounds += 1;
    return found === 0;
  }
}

async function* pagesOf(vault: Vault, { key, isStopped }: ResealOptions): AsyncGenerator<SealedRow[]> {
  let after: string | undefined;
  while (!isStopped()) {
    const rows = await vault.page({ keyId: keyIdOf(key), after, limitRows: PAGE_ROWS });
    if (rows.length > 0) yield rows;
    if (rows.length < PAGE_ROWS) return;
    after = rows.at(-1)?.id;
  }
}

/** Reseals all vaults. Ends with `done` only after a round that found nothing to do except rows that no key opens. */
export async function reseal(vaults: readonly Vault[], options: ResealOptions): Promise<Resealed> {
  const run = new ResealRun();
  const result = (end: Resealed['end']): Resealed => {
    return { counts: run.counts, unopened: [...run.unopened], late: run.late, end };
  };
  for (let rounds = 0; rounds < ROUNDS_MAX; rounds += 1) {
    if (rounds > 1) await options.pause();
    const isClean = await run.round(vaults, options);
    if (options.isStopped()) return result('stopped');
    if (isClean) return result('done');
  }
  return result('incomplete');
}
