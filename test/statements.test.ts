/** The declared row types of all statements, compared with the columns that the database describes: names, types and NULL. */
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { after, test } from 'node:test';
import { postgresTables } from '../src/cli/relay/relay-postgres-sql.ts';
import { readTable } from '../src/cli/relay/relay-source.ts';
import { compare } from './statements/compare.ts';
import { describeStatements } from './statements/describe.ts';
import { openSource, ROOT } from './statements/program.ts';
import { recordTexts } from './statements/record.ts';
import { OUTBOX, TABLE } from './statements/values.ts';
import { singleDatabase } from './setup/database.ts';

/** SQL is only in these files (`test/architecture.test.ts`). */
const FILES = globSync(['src/**/*-sql.ts', 'src/db/*.ts'], { cwd: ROOT, exclude: ['**/*.test.ts'] }).toSorted();

/** Columns that no row has as null, although no NOT NULL says so, with the reason. */
const NEVER_NULL: Readonly<Record<string, string>> = {
  'src/catalog/catalog-sql.ts listResources body': 'no row of a page that is too long is returned',
  'src/events/publish/publish-sql.ts publishBatch eventId':
    'each delivery has its event; the full join is for the planner',
  'src/events/publish/publish-sql.ts publishBatch version': 'as eventId',
  'src/events/publish/publish-sql.ts publishBatch timeZone': 'as eventId',
  'src/events/publish/publish-sql.ts filtersOfStores filter': 'webhook_filter_check: there is a filter_id',
  'src/webhooks/history/statuses-sql.ts readAttempts dateStarted': 'delivery_done has it with the outcome',
  'src/webhooks/history/statuses-sql.ts readAttempts durationMs': 'delivery_done has it with the outcome',
  'src/webhooks/history/history-sql.ts attemptsAt dateStarted': 'delivery_done has it with the outcome',
  'src/webhooks/history/history-sql.ts attemptsAt durationMs': 'delivery_done has it with the outcome',
  'src/webhooks/webhook-sql.ts beginListening listenedAt': 'webhook_held_check: it is a pull webhook',
  'src/webhooks/webhook-sql.ts lastListened listenedAt': 'webhook_held_check: it is a pull webhook',
};

/** Of columns of functions, parameters and views of PostgreSQL, it is not known whether they can be null. */
const UNKNOWN_SHARE_MAX = 0.1;

const source = openSource(FILES);
after(() => source.close());
const files = [...new Set(source.sites.map(({ file }) => file))];
const texts = await recordTexts(source, files);

test('row types have the columns that the database describes', async (t) => {
  const { sql } = await singleDatabase(t);
  // Some statements are of a table whose name is a parameter.
  await sql`create table ${sql(TABLE)} (like event)`;
  await sql.unsafe(postgresTables(readTable(OUTBOX)));
  const described = await describeStatements(sql, new Set(texts.values().flatMap((of) => of)));

  const faults = new Set<string>();
  const excused = new Set<string>();
  const columns = new Map<string, boolean>();
  for (const [{ name, row, start }, of] of texts) {
    if (of.size === 0)
      faults.add(`${name} was not executed: add what it accepts to NAMED in test/statements/values.ts`);
    for (const text of of) {
      const description = described.get(text) ?? { refused: 'not described' };
      if ('refused' in description) faults.add(`${name} ${description.refused}: ${text}`);
      else {
        for (const { column, isKnown, fault } of compare(source.checker, row, description)) {
          columns.set(`${name} ${start} ${column}`, isKnown);
          const at = `${name} ${column}`;
          if (fault === 'may be null' && NEVER_NULL[at] !== undefined) excused.add(at);
          else if (fault !== undefined) faults.add(`${at} ${fault}`);
        }
      }
    }
  }
  for (const file of files) {
    const names = source.sites.flatMap((site) => (site.file === file ? [site.name.slice(file.length + 1)] : []));
    t.diagnostic(`${file}: ${[...new Set(names)].join(', ')}`);
  }
  const unknown = columns
    .values()
    .filter((isKnown) => !isKnown)
    .toArray().length;
  t.diagnostic(
    `${texts.size} statements, ${described.size} texts, ${columns.size} columns; of ${unknown} it is not known whether they can be null`,
  );
  assert.deepEqual([...faults], []);
  assert.deepEqual([...excused].toSorted(), Object.keys(NEVER_NULL).toSorted(), 'a reason without a column');
  assert.ok(unknown < UNKNOWN_SHARE_MAX * columns.size);
});

/** Tables whose rows statements find one by one while there are many. */
const LARGE: ReadonlySet<string> = new Set([
  'resource',
  'event',
  'delivery',
  'delivery_done',
  'publish_key',
  'erased_resource',
]);

type Plan = { 'Relation Name'?: string; 'Index Name'?: string; 'Index Cond'?: string; Filter?: string; Plans?: Plan[] };

/** Returns the columns that a condition compares for equality. */
const equalIn = (condition = ''): string[] =>
  [...condition.matchAll(/\((?:\w+\.)?(\w+) = (?!ANY)/g)].map(([, column = '']) => column);

const nodesOf = (plan: Plan): Plan[] => [plan].concat((plan.Plans ?? []).flatMap(nodesOf));

test('a row is found by its whole key, also without statistics of its table', async (t) => {
  const { sql } = await singleDatabase(t);
  await sql`create table ${sql(TABLE)} (like event)`;
  await sql.unsafe(postgresTables(readTable(OUTBOX)));
  const keys = await sql<{ name: string; columns: string[] }[]>`
    select c.relname::text as name, array_agg(a.attname::text) as columns
    from pg_index i join pg_class c on c.oid = i.indrelid join pg_attribute a on a.attrelid = c.oid and a.attnum = any(i.indkey)
    where i.indisprimary group by 1`;
  const keyOf = new Map(keys.map(({ name, columns }) => [name, columns]));
  // As after an ANALYZE before the first worker: no lease has an owner.
  await sql`analyze shard_lease`;
  // A scan of the whole table is an error of the same kind that a little growth ends.
  await sql`set enable_seqscan = off`;
  const faults = new Set<string>();
  let found = 0;
  for (const [{ name }, of] of texts)
    for (const text of of) {
      const [row] = await sql.unsafe<{ 'QUERY PLAN': { Plan: Plan }[] }[]>(
        `explain (generic_plan, format json) ${text}`,
      );
      for (const node of nodesOf(row?.['QUERY PLAN'][0]?.Plan ?? {})) {
        const table = (node['Relation Name'] ?? '').replace(/_d\d+$/, '');
        const key = keyOf.get(table);
        const isLease = table === 'shard_lease' && /owned as materialized[^]+ for share/.test(text);
        if (isLease && !equalIn(node['Index Cond']).includes('shard')) faults.add(`${name} reads all leases`);
        if (!LARGE.has(table) || key === undefined) continue;
        const [byIndex, all] = [equalIn(node['Index Cond']), equalIn(`${node['Index Cond']} ${node.Filter}`)];
        if (!key.every((column) => all.includes(column))) continue;
        found += 1;
        if (!key.every((column) => byIndex.includes(column)))
          faults.add(`${name} reads ${node['Index Name']} of ${table}`);
      }
    }
  assert.deepEqual([...faults], []);
  assert.ok(found > 50, `${found} rows are found by key`);
});

/** Statements of the table `webhook`, in which `url` can be null and `name` cannot. */
const KNOWN: readonly (readonly [text: string, nullability: string])[] = [
  ['select name from webhook', 'never'],
  ['select url from webhook', 'maybe'],
  ['select url from webhook where url is not null', 'excluded'],
  ['select url from webhook where url > $1 and is_active', 'excluded'],
  ['select url from webhook where url > $1 or is_active', 'maybe'],
  ['select length(url) from webhook where not is_active', 'maybe'],
  ["select coalesce(url, '') from webhook", 'never'],
  ['select count(url) from webhook', 'never'],
  ['select max(name) from webhook', 'maybe'],
  ['select max(name) from webhook group by shard', 'never'],
  ['select w.name from store s left join webhook w on w.store_id = s.id', 'maybe'],
  ['select w.name from store s left join webhook w on w.store_id = s.id where w.id > 1', 'never'],
  ['select s.name from store s left join webhook w on w.store_id = s.id', 'never'],
  ['select s.name from store s right join webhook w on w.store_id = s.id', 'maybe'],
  ['select name from webhook union all select url from webhook', 'maybe'],
  ['with w as (select url from webhook) select url from w', 'maybe'],
  ['with w as (delete from webhook returning name) select name from w', 'never'],
  [
    'with recursive n (i, url) as (select 1, url from webhook union all select i + 1, url from n) select url from n',
    'maybe',
  ],
  ["update webhook set name = 'x' returning url", 'maybe'],
  ['select case when is_active then name end from webhook', 'maybe'],
  ['select exists (select from webhook)', 'never'],
  ['select duration_ms from attempt_log', 'maybe'],
  ['select delivery_id from attempt_log', 'never'],
  ['select $1::text', 'unknown'],
  ["select headers ->> 'x' from webhook", 'maybe'],
];

test('the tree of a statement shows which columns can be null', async (t) => {
  const { sql } = await singleDatabase(t);
  const described = await describeStatements(sql, new Set(KNOWN.map(([text]) => text)));
  const found = [...described].map(([text, of]) => [text, 'refused' in of ? of.refused : of[0]?.nullability]);
  assert.deepEqual(found, KNOWN);
});
