/** The purpose of a statement, recognised by its text. */
export type StatementCounts = Record<string, number>;

const KINDS: readonly (readonly [kind: string, pattern: RegExp])[] = [
  ['publish', /^with\s+lock_limit as/],
  ['numbers', /^select nextval/],
  ['notify', /pg_notify/],
  ['record', /^with owned as materialized[^]*\bas i \(shard, delivery_id/],
  ['fetch', /as lane \(shard, webhook_id, max_rows/],
  ['arrivals', /as announced \(shard, id\)/],
  ['bodies', /from event e where e\.shard/],
  ['settings', /w\.encryption_key as "encryptionKey"/],
  ['discover', /with recursive lane/],
  [
    'reconcile',
    /is_condemned and t\.consecutive_failures > 0 and w\.is_active|as lane \(id, revision, domain\)|as lane \(shard, id, revision/,
  ],
  ['lease', /^insert into worker|from worker\b|shard_lease/],
];

/** One of the words above, or `other`: opening a connection, LISTEN, setting up. */
export function kindOf(statement: string): string {
  const text = statement.trimStart();
  return KINDS.find(([, pattern]) => pattern.test(text))?.[0] ?? 'other';
}
