/**
 * Runs the suite with a map of three databases (`HALCYON_TEST_DATABASES=3`): accounts in the home database, the stores in another one,
 * and a third with a single shard. Tests look at tables of both through one handle, which sends each statement to the database of its
 * tables.
 */
import type { Queryable, Sql, Tx } from '#db/pool.ts';
import { HOME_TABLES, SHARED_TABLES, WRITERS } from '../architecture/tables.ts';
import type { Cleanups } from './cleanups.ts';
import { divide } from './divided.ts';

const IS_DIVIDED = process.env['HALCYON_TEST_DATABASES'] === '3';
const SETTLE_MS = 3_000;
const SHARDS = [
  { first: 256, last: 255 },
  { first: 0, last: 254 },
  { first: 255, last: 255 },
];

type Databases = { home: Sql; stores: Sql | undefined };
const known = new WeakMap<object, Databases>();

const TABLE = /\b(?:from|join|into|update|using|of|table|analyze|truncate|on)\s+(?:only\s+)?"?(\w+)/gi;
const WRITE = /^\s*(?:with\b[^]*\b)?(?:insert|update|delete)\b/i;

/** Returns which database has the tables of a statement. */
function sideOf(text: string): 'home' | 'stores' {
  const tables = [...text.matchAll(TABLE)].map(([, name = '']) => name.toLowerCase());
  if (tables.some((name) => HOME_TABLES.has(name) || name === 'store' || name === 'app_webhook')) return 'home';
  return tables.some((name) => name in WRITERS && !SHARED_TABLES.has(name)) ? 'stores' : 'home';
}

const isDaySequence = (value: unknown): boolean =>
  typeof value === 'string' && /^(?:event|delivery)_n_d\d+$/.test(value);

const isTemplate = (first: unknown): first is TemplateStringsArray =>
  typeof first === 'object' && first !== null && 'raw' in first;

/** Waits until the changes of the home database are applied, as the responses of the API do. */
async function settle({ home, stores }: Databases): Promise<void> {
  const endMs = performance.now() + SETTLE_MS;
  while (stores !== undefined && performance.now() < endMs) {
    if ((await home`select from outbox limit 1`).length === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

type Tag = (first: TemplateStringsArray, ...values: readonly unknown[]) => PromiseLike<unknown>;

function tagOf(databases: Databases, of: (side: 'home' | 'stores') => Queryable, settles: boolean): Tag {
  return (first, ...values) => {
    const text = isTemplate(first) ? first.join(' ') : '';
    const side = values.some(isDaySequence) ? 'stores' : sideOf(text);
    const statement = (of(side) as unknown as Tag)(first, ...values);
    if (!settles || side === 'stores' || !WRITE.test(text)) return statement;
    const then = statement.then.bind(statement);
    return Object.assign(statement, {
      then: (...handlers: Parameters<typeof then>) =>
        Promise.resolve({ then })
          .then(async (rows: unknown) => {
            await settle(databases);
            return rows;
          })
          .then(...handlers),
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
        const tag = tagOf(databases, both(inHome, inStores), false);
        const savepoint = async (part: (tx: Tx) => unknown) =>
          inHome.savepoint(() =>
            inStores.savepoint(() => part(Object.assign(tag, { savepoint, unsafe: inHome.unsafe }) as never)),
          );
        return body(Object.assign(tag, { savepoint, unsafe: inHome.unsafe, json: inHome.json }) as never);
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
    return Object.assign(tagOf(databases, both(inHome, inStores), false), { release, unsafe: inHome.unsafe });
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

/** Returns the pool of the home database, which the application gets. */
export const homeOf = (handle: Sql): Sql => known.get(handle)?.home ?? handle;

/** Divides the database of an application that starts, once. */
export async function divideSuite(handle: Sql, secretKey: Buffer, ends?: Cleanups): Promise<void> {
  const databases = known.get(handle);
  if (databases === undefined || databases.stores !== undefined) return;
  if ((await databases.home`select from store limit 1`).length > 0) return;
  const [, stores] = await divide(databases.home, { shards: SHARDS, secretKey }, ends);
  // Tests take ids of both from the sequence of the home database.
  if (stores !== undefined) await stores`select setval('id_n', 1000000)`;
  databases.stores = stores;
}
