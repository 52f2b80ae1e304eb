/** The handle of a test on two databases: each statement goes to the one that has its tables. */
import type { Queryable, Sql, Tx } from '#db/pool.ts';
import { HOME_TABLES, SHARED_TABLES, WRITERS } from '../architecture/tables.ts';
import { until } from './until.ts';

const IS_DIVIDED = process.env['HALCYON_TEST_DATABASES'] === '3';
const SETTLE_MS = 3_000;

type Databases = { home: Sql; stores: Sql | undefined };
/** The databases of each handle. */
const known = new WeakMap<object, Databases>();

const TABLE = /\b(?:from|join|into|update|using|of|table|analyze|truncate|on)\s+(?:only\s+)?"?(\w+)/gi;
const TRANSACTION = /^\s*(?:begin|commit|rollback|set)\b/i;
const WRITE = /^\s*(?:with\b[^]*\b)?(?:insert|update|delete)\b/i;

/** Returns which database has the tables of a statement. */
function sideOf(text: string): 'home' | 'stores' {
  const tables = [...text.matchAll(TABLE)].map(([, name = '']) => name.toLowerCase());
  if (tables.some((name) => HOME_TABLES.has(name) || name === 'store' || name === 'app_webhook')) return 'home';
  return tables.some((name) => name === 'attempt_log' || (name in WRITERS && !SHARED_TABLES.has(name))) ? 'stores' : 'home';
}

const isDaySequence = (value: unknown): boolean =>
  typeof value === 'string' && /^(?:event|delivery)_n_d\d+$/.test(value);

const isTemplate = (first: unknown): first is TemplateStringsArray =>
  typeof first === 'object' && first !== null && 'raw' in first;

/** Waits until the changes of the home database are applied, as the responses of the API do; gives up without an application. */
async function settle({ home, stores }: Databases): Promise<void> {
  if (stores === undefined) return;
  const waiting = async () => (await home`select from outbox limit 1`).length;
  await until(waiting, (count) => count === 0, SETTLE_MS).catch(() => {});
}

type Tag = (first: TemplateStringsArray, ...values: readonly unknown[]) => PromiseLike<unknown>;

function tagOf(databases: Databases, of: (side: 'home' | 'stores') => Queryable, settles: boolean): Tag {
  return (first, ...values) => {
    const text = isTemplate(first) ? first.join(' ') : '';
    const side = values.some(isDaySequence) ? 'stores' : sideOf(text);
    const statement = (of(side) as unknown as Tag)(first, ...values);
    if (!settles || side === 'stores' || !WRITE.test(text)) return statement;
    const settled = async (): Promise<unknown> => {
      const rows = await statement;
      await settle(databases);
      return rows;
    };
    return new Proxy(statement, {
      get: (target, name) =>
        name === 'then'
          ? (...handlers: Parameters<typeof target.then>) => settled().then(...handlers)
          : Reflect.get(target, name),
    });
  };
}

/** Returns a handle of both databases; of `home` alone until it is divided. */
export function suiteHandle(home: Sql): Sql {
  if (!IS_DIVIDED) return home;
  const databases: Databases = { home, stores: undefined };
  const of = (side: 'home' | 'stores'): Sql => (side === 'stores' ? (databases.stores ?? home) : home);
  const both =
    (inHome: Queryable, inStores: Queryable) =>
    (side: 'home' | 'stores'): Queryable =>
      side === 'stores' ? inStores : inHome;
  const begin = async (...given: unknown[]): Promise<unknown> => {
    const body = given.pop() as (tx: Tx) => unknown;
    const { stores } = databases;
    if (stores === undefined) return home.begin(...(given as [string]), body);
    const result = await home.begin(...(given as [string]), (inHome) =>
      stores.begin(...(given as [string]), (inStores) => {
        const unsafe = (text: string) => inHome.unsafe(text);
        const json = (value: unknown) => inHome.json(value);
        const tag = Object.assign(tagOf(databases, both(inHome, inStores), false), { unsafe, json });
        const savepoint = async (part: (tx: Tx) => unknown) =>
          inHome.savepoint(() => inStores.savepoint(() => part(Object.assign(tag, { savepoint }) as never)));
        return body(Object.assign(tag, { savepoint }) as never);
      }),
    );
    await settle(databases);
    return result;
  };
  const reserve = async () => {
    const { stores } = databases;
    const inHome = await home.reserve();
    if (stores === undefined) return inHome;
    const inStores = await stores.reserve();
    const release = (): void => [inHome, inStores].forEach((one) => one.release());
    const tag = tagOf(databases, both(inHome, inStores), false);
    // A transaction that is begun by hand is one in both.
    const inBoth: Tag = async (first, ...values) => {
      if (TRANSACTION.test(first.join(' '))) await (inHome as unknown as Tag)(first, ...values);
      return TRANSACTION.test(first.join(' ')) ? (inStores as unknown as Tag)(first, ...values) : tag(first, ...values);
    };
    return Object.assign(inBoth, { release });
  };
  const handle = Object.assign(tagOf(databases, of, true), home, {
    begin,
    reserve,
    notify: async (channel: string, payload: string) => of('stores').notify(channel, payload),
    end: async (options?: { timeout: number }) => home.end(options),
    unsafe: (text: string) => of(sideOf(text)).unsafe(text),
    reads: tagOf(databases, (side) => of(side).reads, false),
  }) as unknown as Sql;
  known.set(handle, databases);
  return handle;
}

/** Returns the databases of a handle; undefined if the suite runs with one. */
export const databasesOf = (handle: Sql): Databases | undefined => known.get(handle);
