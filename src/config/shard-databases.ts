/** Reads `SHARD_DATABASES`: the databases that own the shards. */
import { ConfigError, databaseUrlFault, type Env } from './env.ts';

/** The shards `first` to `last` belong to the database at `url`. */
export type ShardRange = { first: number; last: number; url: string };

const LAST_SHARD = 255;
const EXAMPLE = '0-127=postgres://one/halcyon 128-255=postgres://two/halcyon';

const shown = ({ first, last }: Pick<ShardRange, 'first' | 'last'>): string =>
  first === last ? String(first) : `${first}-${last}`;

/** The message contains no address, because addresses have passwords. */
function readRange(name: string, text: string): ShardRange {
  const [, first = '', last = first, url = ''] =
    /^(\d{1,3})(?:-(\d{1,3}))?=(postgres(?:ql)?:\/\/\S+)$/.exec(text) ?? [];
  const range = { first: Number(first), last: Number(last), url };
  if (/,[\d-]+=postgres/.test(url))
    throw new ConfigError(`${name} has a comma between two ranges: write a space, as in "${EXAMPLE}"`);
  const [start = ''] = /^[\d-]+=/.exec(text) ?? [];
  const fault = databaseUrlFault(url);
  if (first !== '' && fault !== undefined) throw new ConfigError(`${name} has the part "${start}…", which ${fault}`);
  if (first !== '' && range.first <= range.last && range.last <= LAST_SHARD) return range;
  throw new ConfigError(
    `${name} has the part "${start}…", which is not <first>-<last>=postgres://… with shards from 0 to ${LAST_SHARD}: write it as in "${EXAMPLE}"`,
  );
}

/** Returns the ranges in the order of their shards; undefined if the variable is not set. Throws a `ConfigError` for a gap or an overlap. */
export function shardDatabases(env: Env, name: string): readonly ShardRange[] | undefined {
  const parts = (env[name] ?? '').split(/\s+/).filter((part) => part !== '');
  if (parts.length === 0) return undefined;
  const ranges = parts.map((part) => readRange(name, part)).toSorted((a, b) => a.first - b.first);
  let next = 0;
  for (const range of ranges) {
    if (range.first < next)
      throw new ConfigError(
        `${name} has two databases for the shards ${shown({ first: range.first, last: Math.min(next - 1, range.last) })}: assign each shard once`,
      );
    if (range.first > next)
      throw new ConfigError(
        `${name} has no database for the shards ${shown({ first: next, last: range.first - 1 })}: assign every shard from 0 to ${LAST_SHARD}`,
      );
    next = range.last + 1;
  }
  if (next <= LAST_SHARD)
    throw new ConfigError(
      `${name} has no database for the shards ${shown({ first: next, last: LAST_SHARD })}: assign every shard from 0 to ${LAST_SHARD}`,
    );
  return ranges;
}
