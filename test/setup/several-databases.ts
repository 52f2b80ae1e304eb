/** Databases of the test server, each with a url as operators write it. */
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import type { TestContext } from 'node:test';
import { testDatabase, type TestDatabase, urlOf } from './database.ts';

export type OneOfSeveral = TestDatabase & { url: string; name: string };

/** Returns a database with the url and name that it has in a map of shards. */
export function withUrl(database: TestDatabase): OneOfSeveral {
  const { address } = database;
  const name = address.kind === 'socket' ? `${address.directory}:5432/${address.database}` : '';
  return { ...database, url: urlOf(address), name };
}

/** Creates databases of the schema of this version: the home database first. */
export async function severalDatabases(t: TestContext, count: number): Promise<[OneOfSeveral, ...OneOfSeveral[]]> {
  const home = withUrl(await testDatabase(t));
  const others: OneOfSeveral[] = [];
  for (let at = 1; at < count; at += 1) others.push(withUrl(await testDatabase(t)));
  return [home, ...others];
}

/** Returns the settings of an installation with these ranges, such as `{ '0-127': home, '128-255': other }`. */
export function settingsOf(
  home: Pick<OneOfSeveral, 'url'>,
  ranges: Readonly<Record<string, Pick<OneOfSeveral, 'url'>>> = {},
  secretKey: Buffer = randomBytes(32),
): Record<string, string> {
  const shards = Object.entries(ranges).map(([range, { url }]) => `${range}=${url}`);
  return {
    DATABASE_URL: home.url,
    HALCYON_SECRET_KEY: secretKey.toString('hex'),
    HALCYON_DATA: tmpdir(),
    ...(shards.length > 0 && { SHARD_DATABASES: shards.join(' ') }),
  };
}
