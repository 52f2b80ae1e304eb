/** The files that contain SQL, and the module that writes each table. */
import { moduleOf, type Fault, type File } from './tree.ts';

type Writing = 'insert' | 'update' | 'delete';
type Writer = string | Readonly<Record<Writing, string | readonly string[]>>;

/**
 * Each table has one module that writes it. `delivery` and `delivery_order` have two: publish inserts, the worker updates and
 * deletes. So has `shard_lease`: the map of shards says which rows there are, and workers update them. A resend and a recovery note on ended
 * deliveries which one sent the event again, in their own transaction, and end those of older epochs for that.
 */
export const WRITERS: Readonly<Record<string, Writer>> = {
  users: 'identity/accounts',
  session: 'identity/accounts',
  portal_session: 'identity/accounts',
  passkey: 'identity/accounts',
  authenticator_app: 'identity/accounts',
  recovery_code: 'identity/accounts',
  used_challenge: 'identity/accounts',
  external_identity: 'identity/accounts',
  password_reset: 'identity/accounts',
  email_change: 'identity/accounts',
  sign_up: 'identity/accounts',
  throttle: 'identity/accounts',
  audit: 'identity/accounts',
  store: 'stores',
  erased_store: 'stores',
  idempotency_key: 'http',
  external_key: 'http',
  membership: 'stores',
  invitation: 'stores',
  awaited_member: 'stores',
  client: 'identity/oauth',
  client_secret: 'identity/oauth',
  client_logo: 'identity/oauth',
  registration_token: 'identity/oauth',
  access_grant: 'identity/oauth',
  authorization_code: 'identity/oauth',
  device_authorization: 'identity/oauth',
  access_token: 'identity/oauth',
  refresh_token: 'identity/oauth',
  webhook: 'webhooks',
  webhook_version: 'webhooks',
  app_webhook: 'webhooks',
  app_webhook_change: { insert: ['webhooks', 'shards'], update: ['webhooks', 'shards'], delete: 'webhooks' },
  operator_outbox: 'webhooks',
  operator_hour: 'webhooks',
  resource: 'events',
  event: 'events',
  publish_key: 'events',
  subscription_term: 'events',
  revenue_book: 'events',
  revenue_day: 'events',
  recovery: 'events',
  erased_chain: 'events',
  erased_customer: 'events',
  erased_event: 'events',
  erased_resource: 'events',
  delivery: { insert: 'events', update: 'delivery', delete: ['delivery', 'events'] },
  delivery_done: { insert: ['delivery', 'events'], update: ['delivery', 'events'], delete: 'delivery' },
  attempt: 'delivery',
  webhook_state: 'delivery',
  webhook_hour: 'delivery',
  delivery_suspect: 'delivery',
  delivery_order: { insert: 'events', update: 'delivery', delete: 'delivery' },
  shard_lease: { insert: 'shards', update: 'delivery', delete: 'shards' },
  shard_database: 'shards',
  shard_map: 'shards',
  shard_owner: 'shards',
  shard_move: 'shards',
  moved_shard: 'shards',
  database_identity: 'shards',
  outbox: 'shards',
  outbox_applied: 'shards',
  worker: 'delivery',
  schema_migration: 'db',
  day_count: 'db',
  day_kind_count: 'db',
  sealing_key: 'db',
};

/**
 * Tables of identity, membership and OAuth. No statement reads them together with tables of stores, so that the stores can be in other
 * databases than the accounts.
 */
export const HOME_TABLES: ReadonlySet<string> = new Set([
  ...Object.entries(WRITERS).flatMap(([table, writer]) =>
    typeof writer === 'string' && writer.startsWith('identity/') ? [table] : [],
  ),
  'membership',
  'invitation',
  'awaited_member',
  'external_key',
]);
/** Small tables that either side may read: the settings of stores and of apps, and those that every database has. */
export const SHARED_TABLES: ReadonlySet<string> = new Set([
  'store',
  'erased_store',
  'app_webhook',
  'idempotency_key',
  'sealing_key',
  'schema_migration',
]);

const SQL_TAGS = /^(?:sql|tx|connection|reserved|admin|pool)$/;
// The start of a statement, so that no other use of the tag's name hides one.
const STATEMENT =
  /^\s*(?:select|insert\s+into|update|delete\s+from|merge\s+into|with(?:\s+recursive)?\s+\w+\s+as|create|alter|drop|truncate|begin|commit|rollback|listen|notify|copy|lock)\s/i;
const RAW_SQL = /\.\s*(?:unsafe|file)\s*\(/;

const isDatabase = ({ path }: File): boolean => moduleOf(path) === 'db';
const maySpeakSql = (file: File): boolean => file.isTest || isDatabase(file) || file.path.endsWith('-sql.ts');

/** SQL is in files named `…-sql.ts` and in src/db; text outside templates (`unsafe`) only in the latter. */
export function strayedSql(files: readonly File[]): Fault[] {
  return files.flatMap((file) => {
    const raw = !isDatabase(file) && !file.isTest && RAW_SQL.test(file.bare);
    const strayed = maySpeakSql(file)
      ? []
      : file.templates.filter(({ tag, text }) => SQL_TAGS.test(tag) || STATEMENT.test(text));
    return [
      ...strayed.map(({ line }) => `${file.path}:${line} contains SQL and is no -sql.ts`),
      ...(raw ? [`${file.path} sends SQL that is not a template`] : []),
    ];
  });
}

const WRITE =
  /\b(insert\s+into|merge\s+into|(?<!\bfor\s+(?:no\s+key\s+)?)update(?!\s+set\b)|delete\s+from|truncate)\s+(?:only\s+)?([\w"]+|\$\{\})/gi;

function writingOf(words: string): Writing {
  if (/^update/i.test(words)) return 'update';
  return /^(?:insert|merge)/i.test(words) ? 'insert' : 'delete';
}

function writersOf(table: string, writing: Writing): readonly string[] {
  const writer = Object.hasOwn(WRITERS, table) ? WRITERS[table] : undefined;
  const [writers = []] = [typeof writer === 'object' ? writer[writing] : writer];
  return typeof writers === 'string' ? [writers] : writers;
}

/** Write a table named at run time: found by the entries of the modules' lists, which name it in a string. */
const NAMED_AT_RUN_TIME = new Set(['src/db/purges.ts', 'src/db/sealed-tables.ts']);
const ENTRY = /\b(deletes|seals):\s*(?:'(\w+)'|\S+)/g;

/** Their tables are in the database of a shop, and in no migration. */
const OF_SHOPS = /^src\/cli\/relay\/relay-(?:mysql|postgres)-sql\.ts$/;

type Write = { line: number; table: string; writing: Writing };

function writesOf({ path, templates, code }: File): Write[] {
  const written = templates
    .filter(({ tag, text }) => SQL_TAGS.test(tag) || STATEMENT.test(text))
    .flatMap(({ text, line }) =>
      [...text.matchAll(WRITE)].map(([, words = '', table = '']) => ({ line, table, writing: writingOf(words) })),
    );
  if (NAMED_AT_RUN_TIME.has(path)) return written.filter(({ table }) => table !== '${}');
  const listed = [...code.matchAll(ENTRY)].map(({ 1: member, 2: table = '${}', index }): Write => ({
    line: code.slice(0, index).split('\n').length,
    table,
    writing: member === 'deletes' ? 'delete' : 'update',
  }));
  return [...written, ...listed];
}

/** Refuses a write by another module than the table's, to a table without a module, and to a table named at run time. */
export function foreignWrites(files: readonly File[]): Fault[] {
  return files
    .filter(({ isTest, path }) => !isTest && !OF_SHOPS.test(path))
    .flatMap((file) =>
      writesOf(file).flatMap(({ line, table, writing }) => {
        const writers = writersOf(table, writing);
        if (writers.some((writer) => writer === moduleOf(file.path))) return [];
        const reason =
          writers.length === 0 ? 'which no module owns' : `which is ${writers.join(' and ')}'s to ${writing}`;
        return [`${file.path}:${line} writes ${table}, ${reason}`];
      }),
    );
}

const READ = /\b(?:from|join|into|update|using)\s+(?:only\s+)?(\w+)/gi;

/** Refuses a file whose statements name tables of accounts and tables of stores. */
export function mixedStatements(files: readonly File[]): Fault[] {
  return files
    .filter(({ isTest, path }) => !isTest && path.endsWith('-sql.ts'))
    .flatMap(({ path, templates }) => {
      const named = templates.flatMap(({ text }) =>
        [...text.matchAll(READ)].map(([, table = '']) => table.toLowerCase()),
      );
      const tables = new Set(named.filter((table) => Object.hasOwn(WRITERS, table) && !SHARED_TABLES.has(table)));
      const home = [...tables].filter((table) => HOME_TABLES.has(table));
      const ofStores = [...tables].filter((table) => !HOME_TABLES.has(table));
      if (home.length === 0 || ofStores.length === 0) return [];
      return [`${path} names ${home.join(', ')} of accounts and ${ofStores.join(', ')} of stores: make two files`];
    });
}

/**
 * Refuses a statement that converts a time by a time zone: PostgreSQL may lack the zone of a store, and reads CET as an offset. Days
 * are those of `src/events/revenue-sql.ts`.
 */
export function zonedStatements(files: readonly File[]): Fault[] {
  return files
    .filter(({ isTest }) => !isTest)
    .flatMap(({ path, templates }) =>
      templates
        .filter(({ text }) => /\bat\s+time\s+zone\b|\btimezone\s*\(/i.test(text))
        .map(({ line }) => `${path}:${line} reads a time zone in SQL`),
    );
}

/** Returns the names of the tables that migrations create. */
export function tablesOf(migration: string): string[] {
  return [...migration.matchAll(/^create table (\w+)/gim)].map(([, name = '']) => name);
}
