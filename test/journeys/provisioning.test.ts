/** The script of docs/platform.md that provisions stores, owners and an app: a repeated run continues a broken one, and changes nothing else. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { startAuthorizationServer } from '../security/oauth-server.ts';
import { SECURITY_MAILS, startMailServer } from '../setup/mail-server.ts';

/** With HALCYON_TEST_WHOLE=1 a thousand. */
const STORES = process.env['HALCYON_TEST_WHOLE'] === '1' ? 1_000 : 40;
const mails = await startMailServer({ ignored: SECURITY_MAILS });
after(() => mails.stop());
const env = { SMTP_URL: mails.url, MAIL_FROM: 'halcyon@example.com', API_RATE_PER_SECOND: '0' };
const server = await startAuthorizationServer(env);
const { sql, platform, origin } = server;

const page = await readFile(join(import.meta.dirname, '../../docs/platform.md'), 'utf8');
const [, script = ''] = /cat > provision\.mjs <<'END'\n(.*?)\nEND\n/s.exec(page) ?? [];
const folder = await mkdtemp(join(tmpdir(), 'halcyon-provisioning-'));
after(() => rm(folder, { recursive: true }));
const [program, credentials] = [join(folder, 'provision.mjs'), join(folder, 'credentials.json')];
await writeFile(program, script);
await writeFile(credentials, JSON.stringify({ base_url: origin, platform }));

/** Of three stores in a row the owner is the same. */
const shop = (n: number) => ({
  external_id: `shop ${n}`,
  name: `Shop ${n}`,
  domain: `shop${n}.example.com`,
  email: `shop${n}@example.com`,
  time_zone: 'Europe/Berlin',
  owner: { external_id: `person ${n - (n % 3)}`, email: `person${n - (n % 3)}@example.com` },
});

async function provision(count: number, nameOf = (n: number) => shop(n).name) {
  const records = join(folder, 'records.json');
  const stores = Array.from({ length: count }, (_, n) => ({ ...shop(n), name: nameOf(n) }));
  const app = { external_id: 'app', name: 'App', redirect_uris: ['https://app.example.com/callback'] };
  await writeFile(records, JSON.stringify({ stores, app }));
  const { stdout } = await promisify(execFile)(process.execPath, [program, credentials, records]);
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as { created: number; known: number };
}

const TABLES = [
  'store',
  'users',
  'membership',
  'client',
  'client_secret',
  'external_key',
  'audit',
  'event',
  'password_reset',
];

/** Returns all rows of the tables that the requests write. */
async function state() {
  const rows: Record<string, unknown> = {};
  for (const table of TABLES)
    rows[table] = await sql`select to_jsonb(t) as row from ${sql(table)} t order by to_jsonb(t)::text`;
  return rows;
}

test('stores, owners and an app that are provisioned twice are there once, and unchanged', async () => {
  const all = 3 * STORES + 1;
  await provision(Math.floor(STORES / 2));
  await provision(STORES);
  const first = await state();
  server.wait(60_000);
  assert.deepEqual(await provision(STORES), { created: 0, known: all });
  assert.deepEqual(await state(), first);
  const rows = await sql<{ resource: string; n: number }[]>`
    select resource, count(*)::int as n from external_key group by resource order by resource`;
  assert.deepEqual(
    Array.from(rows, ({ resource, n }) => [resource, n]),
    [
      ['client', 1],
      ['store', STORES],
      ['user', Math.ceil(STORES / 3)],
    ],
  );
  assert.deepEqual(await provision(STORES, (n) => `Renamed ${n}`), { created: 0, known: all });
  const renamed = await sql`select from store where name like 'Renamed %'`;
  assert.equal(renamed.length, STORES);
});
