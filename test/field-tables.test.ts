/** The field tables, compared with the columns of the database: types, NOT NULL, and the limits of CHECK constraints. */
import assert from 'node:assert/strict';
import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Sql } from '#db/pool.ts';
import type { Field, Fields } from '#http/field-table.ts';
import { userFields } from '#identity/accounts/users.ts';
import { clientFields } from '#identity/oauth/clients/client-fields.ts';
import { grantFields, installFields } from '#identity/oauth/grants.ts';
import { invitationFields, receivedFields } from '#stores/invitations/invitation.ts';
import { awaitedFields, memberFields } from '#stores/members/member.ts';
import { storeFields } from '#stores/store-document.ts';
import { recoveryFields } from '#webhooks/recovery/recovery.ts';
import { webhookFields } from '#webhooks/webhook-fields.ts';
import { testDatabase } from './setup/database.ts';

/** The field tables with their tables in the database. */
const TABLES: readonly (readonly [name: string, table: string, fields: Fields])[] = [
  ['webhookFields', 'webhook', webhookFields],
  ['recoveryFields', 'recovery', recoveryFields],
  ['userFields', 'users', userFields],
  ['clientFields', 'client', clientFields],
  ['grantFields', 'access_grant', grantFields],
  ['installFields', 'access_grant', installFields],
  ['storeFields', 'store', storeFields],
  ['memberFields', 'membership', memberFields],
  ['awaitedFields', 'awaited_member', awaitedFields],
  ['invitationFields', 'invitation', invitationFields],
  ['receivedFields', 'invitation', receivedFields],
];
/** Bodies of requests without a table. */
const BODIES = ['newMemberFields', 'accessFields'];

/** Properties whose CHECK has other limits, with the rule of requests that is stricter than both. */
const OTHER_LIMITS = new Map([
  // An empty text that clears one of these is stored as null; `clientFaults` refuses an empty name.
  ['client.name', 'clientFaults'],
  ['client.company', 'clientFaults'],
  ['client.description', 'clientFaults'],
  ['client.contact', 'clientFaults'],
  ['invitation.email', 'readEmail'],
  ['store.email', 'isEmail'],
  ['store.time_zone', 'readTimeZone'],
]);

const TYPES: Readonly<Record<Field['kind'], readonly string[]>> = {
  text: ['text'],
  code: ['text'],
  url: ['text'],
  enumeration: ['text'],
  number: ['bigint', 'integer', 'smallint'],
  boolean: ['boolean'],
  flag: ['boolean'],
  date: ['timestamp with time zone'],
  secret: ['bytea'],
  list: ['text[]'],
  json: ['jsonb'],
};

type Limits = { min?: number; max?: number; choices?: string };
type Column = { name: string; type: string; isRequired: boolean; checks: string[]; own: string[] };

/** Returns the columns of a table with its CHECK constraints, and with those of the column alone (`own`). */
const columnsIn = (sql: Sql, table: string) => sql<Column[]>`
  select a.attname::text as name, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull as "isRequired",
    array(select pg_get_constraintdef(oid) from pg_constraint where conrelid = a.attrelid and contype = 'c') as checks,
    array(select pg_get_constraintdef(oid) from pg_constraint
      where conrelid = a.attrelid and contype = 'c' and conkey = array[a.attnum]) as own
  from pg_attribute a where a.attrelid = ${table}::regclass and a.attnum > 0 and not a.attisdropped`;

/** Returns the limits of a column: bounds in any constraint, choices in one of the column alone. */
function limitsIn({ name, checks, own }: Column): Limits {
  const boundOf = (operator: string): number | undefined => {
    const pattern = new RegExp(`\\((?:length\\(${name}\\)|${name}) ${operator} (\\d+)\\)`);
    return checks.map((check) => pattern.exec(check)?.[1]).flatMap((n) => (n === undefined ? [] : [Number(n)]))[0];
  };
  const [min, max] = [boundOf('>='), boundOf('<=')];
  const listed = own.find((check) => new RegExp(`\\(\\(?${name} = `).test(check));
  const choices =
    listed &&
    Array.from(listed.matchAll(/'([^']*)'::text/g), ([, one = '']) => one)
      .toSorted()
      .join();
  return { ...(min !== undefined && { min }), ...(max !== undefined && { max }), ...(choices && { choices }) };
}

/** Returns the limits that the table states. An empty text that clears a property is stored as null, so a column may refuse it. */
function limitsOf({ kind, choices, input }: Field): Limits {
  const isNumber = kind === 'number';
  const min = isNumber ? input?.minimum : (input?.minLength ?? (input?.isClearable && input.maxLength ? 1 : undefined));
  const max = isNumber ? input?.maximum : input?.maxLength;
  if (kind === 'list' || kind === 'secret') return {};
  if (typeof choices === 'object') return { choices: choices.toSorted().join() };
  return { ...(min !== undefined && { min }), ...(max !== undefined && { max }) };
}

/** Returns what the table says that the column does not, or the other way round. */
function faultsOf(property: string, field: Field, column: Column | undefined): string[] {
  if (column === undefined) return [`${property} has no column`];
  const { type, isRequired } = column;
  const [stated, checked] = [limitsOf(field), limitsIn(column)];
  const isChecked = JSON.stringify(stated) === JSON.stringify(checked);
  // Only requests have other limits than the choices.
  const isLimited = field.input !== undefined || stated.choices !== undefined;
  return [
    ...(TYPES[field.kind].includes(type) ? [] : [`${property} is ${field.kind}, its column ${type}`]),
    ...(isRequired === (field.isNullable !== true) ? [] : [`${property} and its column differ in NULL`]),
    ...(isLimited && isChecked === OTHER_LIMITS.has(property)
      ? [`${property} has ${JSON.stringify(stated)}, its column ${JSON.stringify(checked)}`]
      : []),
  ];
}

test('types, NULL and limits of field tables are those of the columns', async (t) => {
  const { sql } = await testDatabase(t);
  const faults: string[] = [];
  for (const [name, table, fields] of TABLES) {
    const columns = new Map((await columnsIn(sql, table)).map((column) => [column.name, column]));
    const stored = Object.entries(fields).filter(([, { from }]: [string, Field]) => from === undefined);
    for (const [property, field] of stored) {
      faults.push(...faultsOf(`${table}.${property}`, field, columns.get(field.column ?? property)));
    }
    t.diagnostic(`${name}: ${stored.map(([property]) => property).join(', ')}`);
  }
  assert.deepEqual(faults, []);
});

test('every field table is compared', async () => {
  const root = join(import.meta.dirname, '..');
  const found: string[] = [];
  for await (const path of glob('src/**/*.ts', { cwd: root })) {
    if (path.endsWith('.test.ts')) continue;
    const text = await readFile(join(root, path), 'utf8');
    const declared = text.matchAll(/^(?:export )?const (\w+) = \{\n(?:(?!^\}).*\n)*\} as const satisfies Fields;/gm);
    found.push(...Array.from(declared, ([, name = '']) => name));
  }
  assert.deepEqual(found.toSorted(), [...TABLES.map(([name]) => name), ...BODIES].toSorted());
});
