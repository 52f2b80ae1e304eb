/** One process whose clock is 40 days ahead, beside another: what each issues is valid at both, and the wrong one says so. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { cleanups } from '../setup/cleanups.ts';
import { databaseEnvOf, testDatabase } from '../setup/database.ts';
import { startProgram } from '../setup/fleet/program.ts';
import { freePort } from '../setup/free-port.ts';

const ROOT = new URL('../..', import.meta.url).pathname;
const WRONG = {
  LD_PRELOAD: '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1',
  FAKETIME: '+40d',
  FAKETIME_DONT_FAKE_MONOTONIC: '1',
};

test('a process with a wrong clock issues by the time of the database, and is not ready', async () => {
  const ends = cleanups();
  const { sql, address } = await testDatabase(ends);
  const client = await createClient(sql, { name: 'Platform', redirectUris: [], trusted: true, now: new Date() });
  const start = async (clock: Record<string, string>) => {
    const port = await freePort();
    const env = { ...databaseEnvOf(address), HALCYON_SECRET_KEY: 'ab'.repeat(32), PORT: String(port), ...clock };
    const program = await startProgram({ root: ROOT, args: ['serve'], env, ready: 'is ready.' });
    ends.after(async () => void (await program.end('SIGTERM')));
    const origin = `http://127.0.0.1:${port}`;
    return { program, call: (path: string, init: RequestInit = {}) => fetch(origin + path, init) };
  };
  const right = await start({});
  const wrong = await start(WRONG);
  const form = { grant_type: 'client_credentials', scope: 'platform', ...client };
  for (const from of [right, wrong]) {
    const issued = await from.call('/token', { method: 'POST', body: new URLSearchParams(form) });
    const { access_token: token } = (await issued.json()) as { access_token: string };
    for (const at of [right, wrong]) {
      const headers = { Authorization: `Bearer ${token}`, 'SERVICE-API-VERSION': '1' };
      assert.equal((await at.call('/stores', { headers })).status, 200);
    }
  }
  const [late] = await sql`select from access_token where date_expires > clock_timestamp() + interval '1 day'`;
  assert.equal(late, undefined);
  const ready = await wrong.call('/health/ready');
  assert.deepEqual([ready.status, await ready.json()], [503, { status: 'unready', missing: ['clock'] }]);
  assert.equal((await right.call('/health/ready')).status, 200);
  assert.match(wrong.program.said(), /"aheadSeconds":345[56]\d\d\d,.*synchronise both by NTP/);
});
