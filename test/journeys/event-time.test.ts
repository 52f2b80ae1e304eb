/** `time` of CloudEvents in both modes and the trace id: those of the event, from memory and from the database, at first and later attempts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestApp } from '../setup/app.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const app = await startTestApp();
const { api, clock, sql, storeId, platformToken } = app;
const receiver = await startReceiver();
let failing = 0;
receiver.answer((_got, response) => void response.writeHead(failing-- > 0 ? 500 : 204).end());

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const headers = { traceparent: `00-${TRACE}-00f067aa0ba902b7-01` };

async function ask(method: string, path: string, body: object, token?: string) {
  const response = await api(method, path, { body, headers, ...(token !== undefined && { token }) });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${text}`);
  return JSON.parse(text) as { id: number; date_created: string };
}

/** Advances the clock by less than the delay of the first retry, so that each event has a time of its own, and no step happens at that of another. */
const later = (): void => clock.advance(20_234);

/** Returns the time, the id and the trace of the newest request at a path. */
async function newestAt(path: string, count: number) {
  const all = await until(
    async () => receiver.got.filter((got) => got.path === path),
    ({ length }) => length >= count,
  );
  const newest = all[count - 1];
  const trace = String(newest?.headers['traceparent'] ?? '').slice(3, 35);
  if (path === '/binary') return { time: newest?.headers['ce-time'], id: newest?.headers['ce-id'], trace };
  const { time, id } = JSON.parse(String(newest?.body)) as { time: string; id: string };
  return { time, id, trace };
}

test('a CloudEvent has the time and the trace of its event, however it reaches the worker', async () => {
  const publish = () =>
    ask('POST', `/stores/${storeId}/events`, { event: 'customer/created', resource: { id: 7 } }, platformToken);
  const formats = { '/structured': 'cloudevents', '/binary': 'cloudevents_binary' };
  for (const [path, format] of Object.entries(formats)) {
    const webhook = { name: path, url: receiver.url + path, format, event_resource: 'customer' };
    const { id } = await ask('POST', `/stores/${storeId}/webhooks`, webhook);
    const newestDate = async () => {
      const [row] = await sql<{ at: Date }[]>`select date_created as at from event order by id desc limit 1`;
      return row?.at.toISOString();
    };

    failing = 1;
    await publish();
    const published = await newestDate();
    const first = await newestAt(path, 1);
    assert.deepEqual([first.time, first.trace], [published, TRACE], 'from the publisher');
    await until(
      () => sql<{ n: number }[]>`select n from attempt_log where webhook_id = ${id} and outcome is not null`,
      ({ length }) => length === 1,
    );
    later();
    await ask('POST', `/webhooks/${id}/retry_pending`, {});
    assert.deepEqual(await newestAt(path, 2), first, 'a later attempt');
    const [delivery] = await until(
      () => sql<{ id: number }[]>`select id from delivery_done where webhook_id = ${id}`,
      ({ length }) => length === 1,
    );
    await ask('POST', `/webhooks/${id}/statuses/${delivery?.id}/resend`, {});
    assert.deepEqual(await newestAt(path, 3), first, 'a resend');

    later();
    await ask('POST', `/stores/${storeId}/customers/7/send_webhooks`, { webhooks: [id] });
    const refeed = await newestAt(path, 4);
    const made = [refeed.time === published, refeed.time, refeed.trace];
    assert.deepEqual(made, [false, await newestDate(), ''], 'a refeed');
    later();
    await ask('POST', `/webhooks/${id}/test`, {});
    assert.equal((await newestAt(path, 5)).time, await newestDate(), 'a sample');

    // Events that occur meanwhile are read from the database by the recovery.
    await ask('PATCH', `/webhooks/${id}`, { is_active: '0' });
    later();
    await publish();
    const missed = await newestDate();
    await ask('PATCH', `/webhooks/${id}`, { is_active: '1' });
    later();
    await ask('POST', `/webhooks/${id}/recover`, { since: `${missed?.slice(0, 19)}Z` });
    const recovered = await newestAt(path, 6);
    assert.deepEqual([recovered.time, recovered.trace], [missed, TRACE], 'a recovery');
    await ask('PATCH', `/webhooks/${id}`, { is_active: '0' });
  }
});
