/** Tokens that were valid a short time ago, for requests while the home database is not available. */
import { isUnavailable } from '#db/unavailable.ts';
import type { BearerRow } from './oauth-sql.ts';

const TOKENS_MAX = 10_000;

type Find = (hash: string) => Promise<BearerRow | undefined>;

/**
 * Returns a look-up that uses its last result of a token while the home database is not available, for at most `outageMs` after the
 * token was read. Tokens that were read longest ago are forgotten first.
 */
export function withKnownTokens(
  find: Find,
  { outageMs, monotonicMs }: { outageMs: number; monotonicMs: () => number },
): Find {
  if (outageMs === 0) return find;
  const known = new Map<string, { row: BearerRow; readAtMs: number }>();
  return async (hash) => {
    try {
      const row = await find(hash);
      known.delete(hash);
      if (row === undefined) return undefined;
      known.set(hash, { row, readAtMs: monotonicMs() });
      const [oldest] = known.keys();
      if (known.size > TOKENS_MAX && oldest !== undefined) known.delete(oldest);
      return row;
    } catch (error) {
      const last = known.get(hash);
      if (last === undefined || !isUnavailable(error) || monotonicMs() - last.readAtMs > outageMs) throw error;
      return last.row;
    }
  };
}
