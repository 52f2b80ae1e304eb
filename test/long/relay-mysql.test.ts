/** `halcyon relay` with MariaDB and MySQL 8: its statements, of which test/journeys/relay.test.ts has those of PostgreSQL. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPool } from 'mysql2/promise';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { createStore } from '#stores/store.ts';
import { openSource } from '../../src/cli/relay/relay-command.ts';
import { readTable } from '../../src/cli/relay/relay-source.ts';
import { isMissing, MAVEN } from '../languages/programs.ts';
import { startTestApp } from '../setup/app.ts';
import { cleanups } from '../setup/cleanups.ts';
import { printed, runCommand, startCommand, untilEnded } from '../setup/command.ts';
import { readExposition } from '../setup/exposition.ts';
import { freePort } from '../setup/free-port.ts';
import { startMysql } from '../setup/mysql-server.ts';

const ends = cleanups();
const app = await startTestApp({ roles: ['serve'] });
const now = app.clock.now();
const platform = await createClient(app.sql, { name: 'Shop', redirectUris: [], trusted: true, now });
for (const kind of ['MariaDB', 'MySQL'] as const)
  test(kind, async (t) => {
    if (kind === 'MySQL') {
      if (process.arch !== 'x64') return t.skip('Maven Central has MySQL for x64 only');
      if (await isMissing(t, MAVEN)) return;
    }
    const server = await startMysql(ends, kind);
    const pool = createPool({ uri: server.url, connectionLimit: 1, multipleStatements: true });
    ends.after(() => pool.end());
    const ask = async <Row>(statement: string, values: string[] = []): Promise<Row[]> =>
      (await pool.query(statement, values))[0] as Row[];

    const env = {
      HALCYON_URL: app.baseUrl,
      HALCYON_CLIENT_ID: platform.client_id,
      HALCYON_CLIENT_SECRET: platform.client_secret,
      HALCYON_DATA: '/nonexistent',
      HALCYON_RELAY_FROM: server.url,
    };
    await ask((await runCommand(['relay', '--init', 'mysql'], env)).out);
    const once = () => runCommand(['relay', '--once'], env);

    let storeId = 0;
    t.beforeEach(async () => {
      await ask('delete from halcyon_outbox; delete from halcyon_outbox_dead');
      const store = { name: 'S', domain: 's.example', email: 'a@example.com', timeZone: 'UTC', now };
      storeId = (await createStore(app.sql, store)).id;
    });

    const insert = (id: string, resource: string) =>
      ask('insert into halcyon_outbox (id, store_id, event, resource) values (?, ?, ?, ?)', [
        id,
        String(storeId),
        'transaction/created',
        resource,
      ]);
    const bodies = async (): Promise<string[]> => {
      const rows = await app.sql<{ body: string }[]>`
        select body from event where store_id = ${storeId} order by event.id`;
      return rows.map(({ body }) => body);
    };

    await t.test(
      'rows are published in the order of their ids, with numbers as they are written, and refused rows are moved',
      async () => {
        // Next to each other beyond 2^53, and not in the order of texts.
        await insert('9007199254740994', '{"id": 4}');
        await insert('9007199254740993', `{"id": 3, "note": "it's \\\\ ü 😀", "total": 12.50}`);
        await insert('9007199254740992', '{"id": ');
        await insert('10', '{"id": 2}');
        await insert('9', '{"id": 1}');
        const { code, err } = await once();
        assert.equal(code, 2, err);
        const published = await bodies();
        assert.deepEqual(
          published.map((body) => (JSON.parse(body) as { id: number }).id),
          [1, 2, 3, 4],
        );
        assert.match(published[2] ?? '', /12\.50/);
        assert.equal((JSON.parse(published[2] ?? '') as { note: string }).note, String.raw`it's \ ü 😀`);
        assert.deepEqual(await ask('select id from halcyon_outbox'), []);
        const letters = await ask<{ id: string; resource: string; reason: string }>(
          'select cast(id as char) as id, resource, reason from halcyon_outbox_dead',
        );
        assert.deepEqual(
          letters.map(({ id, resource }) => [id, resource]),
          [['9007199254740992', '{"id": ']],
        );
        assert.match(letters[0]?.reason ?? '', /not JSON/);
      },
    );

    await t.test('a row whose key the server may have forgotten is not published again', async () => {
      await insert('1', '{"id": 1}');
      await insert('2', '{"id": 2}');
      await ask('update halcyon_outbox set date_attempted = now(6) - interval (1383 - 2 * id) minute');
      assert.equal((await once()).code, 2);
      assert.deepEqual(
        await bodies(),
        ['{"id": 2}'].map((body) => JSON.stringify(JSON.parse(body))),
      );
    });

    await t.test('a round reads the first rows up to 2 MiB, and the lag is that of the first 10,000 rows', async () => {
      const source = await openSource(server.url, readTable('halcyon_outbox'));
      assert.ok(source !== undefined);
      const MIB = 1024 * 1024;
      try {
        const sizes = [MIB + 1, MIB, MIB + 1, MIB - 1, 1, 1];
        for (const [at, size] of sizes.entries()) await insert(String(at + 1), 'x'.repeat(size));
        const rows = await source.read(500, []);
        assert.deepEqual(
          rows.map(({ id, resource }) => [id, resource?.length ?? null]),
          [
            ['1', null],
            ['2', MIB],
            ['3', null],
            ['4', MIB - 1],
            ['5', 1],
          ],
        );
        assert.deepEqual(await source.read(2, [String(storeId)]), []);
        const hours = Array.from({ length: 10_001 }, (_, at) => ({ 0: 1, 10_000: 2 })[at] ?? 0);
        const values = hours.map((ago) => `(1, 'x', '', now(6) - interval ${ago} hour)`);
        await ask(`delete from halcyon_outbox;
          insert into halcyon_outbox (store_id, event, resource, date_created) values ${values.join(', ')}`);
        const lag = await source.lag();
        assert.equal(lag.rows, 10_000);
        assert.ok(lag.oldestSeconds >= 3_600 && lag.oldestSeconds < 7_200, String(lag.oldestSeconds));
      } finally {
        await source.close();
      }
    });

    await t.test('a second relay waits, and the metrics have the rows that wait', async () => {
      const port = await freePort();
      const first = startCommand(['relay', '--metrics-port', String(port)], env);
      await printed(first, /(Relaying shop\.halcyon_outbox)/);
      assert.match((await once()).err, /Another relay/);
      const { value } = readExposition(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text());
      assert.equal(value('halcyon_relay_rows_waiting'), 0);
      assert.equal(value('halcyon_relay_oldest_row_seconds'), 0);
      first.kill('SIGTERM');
      assert.equal((await untilEnded(first)).code, 0);
      assert.equal((await once()).code, 0, 'the lock has ended with the relay');
    });

    await t.test('a column of another type is named', async () => {
      await ask('alter table halcyon_outbox modify date_attempted datetime');
      const { code, err } = await once();
      assert.equal(code, 1);
      assert.match(err, /date_attempted is datetime/);
      await ask('alter table halcyon_outbox drop date_attempted');
      assert.match((await once()).err, /no column date_attempted/);
    });
  });
