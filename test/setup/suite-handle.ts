/** The handle of a test on two databases: each statement goes to the one that has its tables. */
import type { DatabaseAddress, Queryable, Sql, Tx } from '#db/pool.ts';
import { HOME_TABLES, SHARED_TABLES, WRITERS } from '../architecture/tables.ts';
import type { Cleanups } from './cleanups.ts';
import { until } from './until.ts';

export const IS_DIVIDED = process.env['HALCYON_TEST_DATABASES'] === '3';
const SETTLE_MS = 3_000;

/** `address`: that of `stores`. `ends`: run with the end of the home database. */
type Databases = { home: Sql; stores: Sql | undefined; address?: DatabaseAddress | undefined; ends: Cleanups };
/** The databases of each handle. */
const known = new WeakMap<object, Databases>();

const TABLE = /\b(?:from|join|into|update|using|of|table|analyze|truncate|on|call)\s+(?:only\s+)?"?(\w+)/gi;
const TRANSACTION = /^\s*(?:begin|commit|rollback|set)\b/i;
const WRITE = /^\s*(?:with\b[^]*\b)?(?:insert|update|delete)\b/i;
/** Sessions and locks are those of both. */
const ACTIVITY = /\bpg_(?:stat_activity|locks)\b/;
const CATALOGUE = /^pg_/;
const LEAF = /_d\d+$/;

type Side = 'home' | 'stores' | 'both';

/** Returns which database has the tables of a statement, or that it is executed in both. */
function sideOf(text: string): Side {
  if (ACTIVITY.test(text)) return 'both';
  const tables = [...text.matchAll(TABLE)].map(([, name = '']) => name.toLowerCase().replace(LEAF, ''));
  if (tables.some((name) => HOME_TABLES.has(name) || name === 'store' || name === 'app_webhook')) return 'home';
  const isOfStores = (name: string): boolean =>
    name === 'attempt_log' || CATALOGUE.test(name) || (name in WRITERS && !SHARED_TABLES.has(name));
  return tables.some(isOfStores) ? 'stores' : 'home';
}

type Part = { strings?: readonly string[]; values?: readonly unknown[]; text?: string };

/** Returns the text of a template with its fragments and names. */
function textOf(strings: readonly string[], values: readonly unknown[]): string {
  const parts = values.map((value) => {
    if (typeof value !== 'object' || value === null) return '';
    const { strings: inner, values: given = [], text } = value as Part;
    return inner === undefined ? (text ?? '') : textOf(inner, given);
  });
  return strings.map((string, at) => string + (parts[at] ?? '')).join('');
}

const isDaySequence = (value: unknown): boolean =>
  typeof value === 'string' && /^(?:event|delivery)_n_d\d+$/.test(value);

const isTemplate = (first: unknown): first is TemplateStringsArray =>
  typeof first === 'object' && first !== null && 'raw' in first;

/** Waits until the changes of the home database are applied, as the responses of the API do; gives up without an application. */
export async function settle({ home, stores }: Databases): Promise<void> {
  if (stores === undefined) return;
  const waiting = async () => (await home`select from outbox limit 1`).length;
  await until(waiting, (count) => count === 0, SETTLE_MS).catch(() => {});
}

type Tag = (first: TemplateStringsArray, ...values: readonly unknown[]) => PromiseLike<unknown>;
/** Returns the handle of one side; `both` is no argument, because such a statement is executed on each. */
type Of = (side: 'home' | 'stores') => Queryable;

/** Returns a statement that is executed by `run` when it is awaited, and is a fragment otherwise. */
function withResult(statement: object, run: () => Promise<unknown>): PromiseLike<unknown> {
  let result: Promise<unknown> | undefined;
  const then = (...handlers: Parameters<Promise<unknown>['then']>) => (result ??= run()).then(...handlers);
  const own: Record<string | symbol, unknown> = {
    // oxlint-disable-next-line unicorn/no-thenable -- it is a promise
    then,
    catch: (handler: (error: unknown) => unknown) => then(undefined, handler),
    finally: async (handler: () => void) => (result ??= run()).finally(handler),
    execute: () => {
      void (result ??= run());
      return proxy;
    },
  };
  const proxy: object = new Proxy(statement, { get: (target, name) => own[name] ?? Reflect.get(target, name) });
  return proxy as PromiseLike<unknown>;
}

function tagOf(databases: Databases, of: Of, settles: boolean): Tag {
  return (first, ...values) => {
    if (!isTemplate(first)) return (of('home') as unknown as Tag)(first);
    const text = textOf(first, values);
    const side = values.some(isDaySequence) ? 'stores' : sideOf(text);
    const on = (one: 'home' | 'stores') => (of(one) as unknown as Tag)(first, ...values);
    if (side === 'both' && of('home') !== of('stores'))
      return withResult(on('home'), async () => {
        const [inHome, inStores] = [(await on('home')) as unknown[], (await on('stores')) as unknown[]];
        return Object.assign([...inHome, ...inStores], { count: inHome.length + inStores.length });
      });
    const statement = on(side === 'stores' ? 'stores' : 'home');
    if (!settles || side !== 'home' || !WRITE.test(text)) return statement;
    return withResult(statement, async () => {
      const rows = await statement;
      await settle(databases);
      return rows;
    });
  };
}

/** Returns a handle of both databases; of `home` alone until it is divided. */
export function suiteHandle(home: Sql, ends: Cleanups): Sql {
  if (!IS_DIVIDED) return home;
  const databases: Databases = { home, stores: undefined, ends };
  const of = (side: 'home' | 'stores'): Sql => (side === 'stores' ? (databases.stores ?? home) : home);
  const both =
    (inHome: Queryable, inStores: Queryable): Of =>
    (side) =>
      side === 'stores' ? inStores : inHome;
  /** The members of a handle beside its tag. */
  const members = (one: Of) => ({
    unsafe: (text: string) => one(sideOf(text) === 'stores' ? 'stores' : 'home').unsafe(text),
    json: (value: unknown) => one('home').json(value),
  });
  const begin = async (...given: unknown[]): Promise<unknown> => {
    const body = given.pop() as (tx: Tx) => unknown;
    const { stores } = databases;
    if (stores === undefined) return home.begin(...(given as [string]), body);
    const result = await home.begin(...(given as [string]), (inHome) =>
      stores.begin(...(given as [string]), (inStores) => {
        const inBoth = both(inHome, inStores);
        const tag = Object.assign(tagOf(databases, inBoth, false), members(inBoth));
        return body(tag as never);
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
    const inBoth: Tag = (first, ...values) => {
      const statement = tag(first, ...values);
      if (!isTemplate(first) || !TRANSACTION.test(first.join(' '))) return statement;
      return withResult(statement, async () => {
        await (inHome as unknown as Tag)(first, ...values);
        return (inStores as unknown as Tag)(first, ...values);
      });
    };
    return Object.assign(inBoth, { release, ...members(both(inHome, inStores)) });
  };
  const handle = Object.assign(tagOf(databases, of, true), home, {
    begin,
    reserve,
    end: async (options?: { timeout: number }) => home.end(options),
    ...members(of),
    reads: Object.assign(
      tagOf(databases, (side) => of(side).reads, false),
      members((side) => of(side).reads),
    ),
  }) as unknown as Sql;
  // The connections, for LISTEN and separate pools.
  for (const symbol of Object.getOwnPropertySymbols(home))
    Object.defineProperty(handle, symbol, { get: () => Reflect.get(of('stores'), symbol) });
  known.set(handle, databases);
  return handle;
}

/** Returns the databases of a handle; undefined if the suite runs with one. */
export const databasesOf = (handle: Sql): Databases | undefined => known.get(handle);
