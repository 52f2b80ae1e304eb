import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { emptyDatabase } from '../../test/setup/database.ts';
import { openPool, transaction, type Queryable } from './pool.ts';
import { isUnavailable } from './unavailable.ts';

const database = await emptyDatabase();
const { sql } = database;

const early = new Date('2026-01-02T03:04:05.678Z');
const late = new Date('2031-12-31T23:59:59.999Z');

/** Each array goes to the server as a parameter, is unnested there, and comes back as rows and as an array. */
const ARRAYS: Record<string, unknown[]> = {
  bigint: [1, null, Number.MAX_SAFE_INTEGER, -5],
  int: [null, 2_147_483_647, 0],
  smallint: [7, null, -32_768],
  'double precision': [1.5, null, -2e300],
  text: ['plain', null, 'NULL', '', 'a,b', '{"c"}', 'back\\slash', 'new\nline', 'naïve 😀', ' '],
  date: [new Date('2026-02-28'), null, new Date('2028-02-29')],
  numeric: ['19.90', null, '-0.0000001'],
  timestamptz: [early, null, late],
  boolean: [true, null, false],
  bytea: [Buffer.from([0, 255, 92, 34]), null, Buffer.alloc(0)],
  jsonb: [{ type: 'text', value: 'x' }, null, [1, 'two'], 'three', 4],
  uuid: ['0b54e6f3-3c1c-4b0a-9b0e-3f5f3d1c2b1a', null],
};

async function roundTrip(on: Queryable, type: string, values: unknown[]): Promise<{ rows: unknown[]; array: unknown }> {
  const cast = on.unsafe(`::${type}[]`);
  const rows = await on<{ value: unknown }[]>`
    select value from unnest(${values as string[]}${cast}) with ordinality as u(value, n) order by n`;
  const [row] = await on<{ array: unknown }[]>`select ${values as string[]}${cast} as array`;
  return { rows: rows.map(({ value }) => value), array: row?.array };
}

for (const [type, values] of Object.entries(ARRAYS)) {
  test(`${type}[] keeps every value and every null, in any order`, async () => {
    for (const order of [values, values.toReversed(), [null], []]) {
      assert.deepEqual(await roundTrip(sql, type, order), { rows: order, array: order });
    }
  });
}

test('no statement casts to an array of another type', () => {
  const statements = globSync(join(import.meta.dirname, '../**/*-sql.ts')).map((path) => readFileSync(path, 'utf8'));
  const casts = statements.join('\n').matchAll(/::(\w+(?: precision)?)\[\]/g);
  const cast = new Set(Array.from(casts, ([, type = '']) => type));
  assert.ok(cast.size > 5);
  assert.deepEqual(
    [...cast].filter((type) => !Object.hasOwn(ARRAYS, type)),
    [],
  );
});

test('arrays work on every tag: in a transaction, on a reserved connection', async () => {
  const expected = { rows: [early, null], array: [early, null] };
  await transaction(sql, async (tx) => {
    assert.deepEqual(await roundTrip(tx, 'timestamptz', [early, null]), expected);
  });
  const reserved = await sql.reserve();
  assert.deepEqual(await roundTrip(reserved, 'timestamptz', [early, null]), expected);
  reserved.release();
});

test('a statement is prepared once for all its parameters, arrays of dates included', async () => {
  await transaction(sql, async (tx) => {
    const ask = (values: Date[]) => tx`select cardinality(${values}::timestamptz[]) as prepared_here`;
    await ask([]);
    await ask([early]);
    await ask([early, late]);
    const [row] = await tx<{ statements: number }[]>`
      select count(*) as statements from pg_prepared_statements where statement like '%[]) as prepared_here'`;
    assert.equal(row?.statements, 1);
  });
});

test('a statement that callers can make long is not prepared: each connection would keep it', async () => {
  await transaction(sql, async (tx) => {
    const preparedOf = async (terms: number): Promise<number> => {
      const items = Array.from({ length: terms }, () => tx`, 100000000`).reduce((before, item) => tx`${before}${item}`);
      const [row] = await tx<{ long_here: number }[]>`select cardinality(array[1${items}]) as long_here`;
      assert.equal(row?.long_here, terms + 1);
      const [{ statements } = { statements: 0 }] = await tx<{ statements: number }[]>`
        select count(*) as statements from pg_prepared_statements where statement like '%as long_here'`;
      return statements;
    };
    assert.equal(await preparedOf(3), 1);
    assert.equal(await preparedOf(2_000), 1);
  });
});

test('scalars: int8 and count are numbers, timestamptz is a Date to the millisecond', async () => {
  const [row] =
    await sql`select ${Number.MAX_SAFE_INTEGER}::bigint as id, count(*) as n, ${early}::timestamptz as at from (values (1), (2)) v`;
  assert.deepEqual({ ...row }, { id: Number.MAX_SAFE_INTEGER, n: 2, at: early });
});

test('a transaction commits on fulfilment, rolls back on rejection, and passes on the result of both', async () => {
  await sql`create table kept (n int)`;
  assert.deepEqual(await transaction(sql, async (tx) => [await tx`insert into kept values (1)`.then(() => 'one')]), [
    'one',
  ]);
  const failing = transaction(sql, async (tx) => {
    await tx`insert into kept values (2)`;
    throw new RangeError('mine');
  });
  await assert.rejects(failing, RangeError);
  assert.deepEqual([...(await sql`select n from kept`)], [{ n: 1 }]);
});

test('a transaction in which a statement failed is undone, also if its caller ignores the failure', async () => {
  await sql`create table undone (n int)`;
  const failing = transaction(sql, async (tx) => {
    await tx`insert into undone values (1)`;
    await tx`select 1 / 0`.catch(() => {});
  });
  await assert.rejects(failing, { code: '22012' });
  assert.deepEqual([...(await sql`select n from undone`)], []);
});

test('a statement after the end of its transaction is rejected', async () => {
  const ended = await transaction(sql, async (tx) => ({ ask: async () => tx`select 1` }));
  await assert.rejects(ended.ask(), isUnavailable);
  const reserved = await sql.reserve();
  reserved.release();
  await assert.rejects(async () => reserved`select 1`, isUnavailable);
});

test('statements that are sent together are answered each by its own, also after one that fails', async () => {
  const reserved = await sql.reserve();
  const answers = await Promise.allSettled([1, 0, 2].map((n) => reserved`select 4 / ${n}::int as q`));
  assert.deepEqual(
    answers.map((answer) => (answer.status === 'fulfilled' ? answer.value[0]?.['q'] : 'failed')),
    [4, 'failed', 2],
  );
  reserved.release();
});

test('a statement that was prepared before a table changed is prepared again', async () => {
  const own = openPool(database.address, { connections: 1, applicationName: 'test' });
  await sql`create table changing (a int)`;
  const read = async () => [...(await own`select * from changing`)];
  assert.deepEqual(await read(), []);
  await sql`alter table changing add column b int default 2`;
  await sql`insert into changing values (1)`;
  assert.deepEqual(await read(), [{ a: 1, b: 2 }]);
  await own.end();
});

test('the stack of an error leads to its statement', async () => {
  const wrong = await sql`select 1 / ${0}::int`.catch((error: unknown) => error);
  assert.ok(wrong instanceof Error);
  assert.match(wrong.stack ?? '', /^PostgresError: division by zero\n\s+at .*pool\.test\.ts/);
  const own = openPool(database.address, { connections: 1, applicationName: 'test' });
  const ended = await own`select pg_terminate_backend(pg_backend_pid())`.catch((error: unknown) => error);
  await own.end();
  assert.match((ended as Error).stack ?? '', /^PostgresError: terminating .*\n\s+at .*pool\.test\.ts/);
});

test('a parameter that is undefined or no value is refused', async () => {
  for (const wrong of [undefined, { a: 1 }]) await assert.rejects(async () => sql`select ${wrong as never}`, TypeError);
});

test('onQuery sees every statement, and costs nothing where it is not used', async () => {
  const seen: string[] = [];
  const counted = openPool(database.address, {
    connections: 1,
    applicationName: 'test',
    onQuery: (text) => seen.push(text),
  });
  await counted`select 1 as counted`;
  await counted.end();
  assert.ok(seen.includes('select 1 as counted'));
  const error = await sql`select ${'hidden'}::int`.catch((failure: unknown) => failure);
  assert.ok(error instanceof Error && !Object.keys(error).includes('parameters'), 'no parameters in a log line');
});

test('unavailable means that the server is gone, not that the statement is wrong', async () => {
  const own = openPool(database.address, { connections: 1, applicationName: 'test' });
  const killed = await own`select pg_terminate_backend(pg_backend_pid())`.catch((error: unknown) => error);
  assert.ok(isUnavailable(killed), String(killed));
  // Until the driver has read the close of the connection, it fails with the same error.
  let answer: unknown;
  for (let attempt = 0; attempt < 100 && answer === undefined; attempt += 1) {
    answer = await own`select 1 as n`.then(
      ([row]) => row?.['n'] as number,
      (error: unknown) => {
        assert.ok(isUnavailable(error), String(error));
        return undefined;
      },
    );
  }
  assert.equal(answer, 1, 'the pool connects again by itself');
  await own.end();
  const ended = await own`select 1`.catch((error: unknown) => error);
  assert.ok(isUnavailable(ended), String(ended));
  const missing = openPool(
    { ...database.address, kind: 'socket', directory: '/nonexistent', user: 'u', password: 'p', database: 'd' },
    { connections: 1, applicationName: 'test' },
  );
  const absent = await missing`select 1`.catch((error: unknown) => error);
  assert.ok(isUnavailable(absent), String(absent));
  await missing.end();
  const wrong = await sql`select 1/0`.catch((error: unknown) => error);
  assert.ok(wrong instanceof Error && !isUnavailable(wrong));
  assert.equal(isUnavailable('57P01'), false);
});
