/** What a statement is for, told by its text. */
export type StatementCounts = Record<string, number>;

const KINDS: readonly (readonly [kind: string, pattern: RegExp])[] = [
  ['publish', /^with\s+(?:wanted|kept|input) as/],
  ['numbers', /^select nextval/],
  ['notify', /pg_notify/],
  ['record', /^with held as materialized/],
  ['fetch', /as lane \(webhook_id, asked/],
  ['arrivals', /as told \(shard, id\)/],
  ['bodies', /from event\s+where shard/],
  ['settings', /from webhook w\s+join store/],
  ['discover', /^with recursive lane/],
  ['lease', /^insert into worker|^select id, beat from worker|shard_lease/],
];

/** One of the words above, or `other`: opening a connection, LISTEN, setting up. */
export function kindOf(statement: string): string {
  const text = statement.trimStart();
  return KINDS.find(([, pattern]) => pattern.test(text))?.[0] ?? 'other';
}
