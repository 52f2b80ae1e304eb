/**
 * Ten thousand missed events are recovered under load, while the workers that recover are killed one after the other: each
 * of them arrives, has one delivery, and events that had arrived before are not sent again.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { amountOf } from '../setup/amount.ts';
import { openFleet } from '../setup/fleet/fleet.ts';
import { until } from '../setup/until.ts';

const MISSED = Number(process.env['RECOVERY_EVENTS'] ?? amountOf('recovery', { all: 10_000, part: 2_500 }));
const WEBHOOKS = 12;
const EACH = Math.ceil(MISSED / WEBHOOKS);
/** This many of each webhook arrived before it was disabled. */
const BEFORE = 20;
const EVENTS_AT_ONCE = 500;
const KILLS = 4;
const PATIENCE_MS = 200_000;

const fleet = await openFleet({ slots: 256 });
const { sql, ledger } = fleet;
await fleet.startPublisher();
const [origin] = fleet.origins();

const platform = await createClient(sql, { name: 'Platform', redirectUris: [], trusted: true, now: new Date() });
const tokenAnswer = await fetch(`${origin}/token`, {
  method: 'POST',
  body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'platform', ...platform }),
});
const { access_token: token } = (await tokenAnswer.json()) as { access_token: string };

async function ask(method: string, address: string, body?: unknown): Promise<Record<string, unknown>> {
  const response = await fetch(new URL(address, origin), {
    method,
    headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${address}: ${response.status} ${text}`);
  return { ...(JSON.parse(text) as Record<string, unknown>), location: response.headers.get('location') };
}

/** The first webhook of some stores, on as many shards. */
const webhooks = await sql<{ id: number; storeId: number; path: string }[]>`
  select distinct on (store_id) id, store_id as "storeId", substring(url from '//[^/]+(/.*)') as path
  from webhook order by store_id, id limit ${WEBHOOKS}`;

async function publish(storeId: number, ids: readonly string[]): Promise<void> {
  for (let at = 0; at < ids.length; at += EVENTS_AT_ONCE) {
    const events = ids.slice(at, at + EVENTS_AT_ONCE).map((id) => ({ event: 'transaction/created', resource: { id } }));
    await ask('POST', `/stores/${storeId}/events`, events);
  }
}
const idsOf = (name: string, count: number) => Array.from({ length: count }, (_, n) => `${name}-${n}`);
const notArrived = (name: string, count: number): string[] =>
  webhooks
    .flatMap(({ path }) => idsOf(name, count).map((id) => `${path} ${id}`))
    .filter((one) => !ledger.wasDelivered(one));

async function progress() {
  const [row] = await sql<{ open: number; recovered: number; states: string[] }[]>`
    select count(*) filter (where date_ended is null) as open, sum(events_recovered) as recovered,
      array_agg(distinct state) as states
    from recovery`;
  return { open: row?.open ?? 0, recovered: row?.recovered ?? 0, states: row?.states ?? [] };
}

test('missed events are recovered once, though workers are killed meanwhile', async (t) => {
  const workers = [await fleet.startWorker(), await fleet.startWorker()];
  await Promise.all(webhooks.map(({ storeId }) => publish(storeId, idsOf('before', BEFORE))));
  const pending = () => sql`select from delivery limit 1`;
  await until(pending, ({ length }) => length === 0, PATIENCE_MS);
  assert.deepEqual(notArrived('before', BEFORE), []);

  for (const { id } of webhooks) await ask('PATCH', `/webhooks/${id}`, { is_active: '0' });
  const since = new Date(Date.now() - 3_600_000).toISOString();
  await Promise.all(webhooks.map(({ storeId }) => publish(storeId, idsOf('missed', EACH))));
  for (const { id } of webhooks) await ask('PATCH', `/webhooks/${id}`, { is_active: '1' });
  await fleet.startLoad();
  const begunMs = performance.now();
  await Promise.all(webhooks.map(({ id }) => ask('POST', `/webhooks/${id}/recover`, { since })));

  const at: number[] = [];
  for (let kills = 1; kills <= KILLS; kills += 1) {
    const enough = (kills * MISSED) / (KILLS + 1);
    const { recovered } = await until(progress, (now) => now.recovered >= enough || now.open === 0, PATIENCE_MS);
    const [victim, next] = [workers.shift(), await fleet.startWorker()];
    assert.ok(victim);
    at.push(recovered);
    ledger.fault(victim.life, 'killed');
    assert.equal(await victim.end('SIGKILL'), 'SIGKILL');
    workers.push(next);
  }
  await fleet.load.stop();
  const { states } = await until(progress, ({ open }) => open === 0, PATIENCE_MS);
  t.diagnostic(`${MISSED} events in ${((performance.now() - begunMs) / 1_000).toFixed(1)} s; kills at ${at.join(' ')}`);
  assert.deepEqual(states, ['finished']);
  await until(
    async () => notArrived('missed', EACH).length,
    (missing) => missing === 0,
    PATIENCE_MS,
  );
  await fleet.settle(t);
  const [rows] = await sql<{ n: number; single: number; recovered: number }[]>`
    select count(*) as n, count(distinct (webhook_id, event_id)) as single,
      (select sum(events_recovered) from recovery)::int as recovered
    from delivery_done where webhook_id = any (${webhooks.map(({ id }) => id)}::bigint[])`;
  assert.equal(rows?.n, rows?.single, 'one delivery for each event and webhook');
  assert.equal(rows?.recovered, WEBHOOKS * EACH);
  assert.ok(
    at.some((recovered) => recovered > 0 && recovered < MISSED),
    'a worker was killed in the middle',
  );
});
