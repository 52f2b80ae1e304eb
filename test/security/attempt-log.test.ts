/** The log line of an attempt has what an operator needs, and no secret of a url, a header or an answer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import { KEY, startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { captureLogs } from './at-rest/capture.ts';
import { findSecrets } from './at-rest/search.ts';

const logs = captureLogs();
const engine = await startEngine({ log: logs.log });
const receiver = await startReceiver();

type Line = Record<string, unknown>;
const attempts = (): Line[] =>
  logs
    .text()
    .split('\n')
    .filter((line) => line.includes('"msg":"attempt"'))
    .map((line) => JSON.parse(line) as Line);

const secrets = new Map([
  ['the key', KEY],
  ['a path', 'T0123ABCD-xoxb-secret-in-a-path'],
  ['a query', 'sig-9f8e7d6c5b4a-in-a-query'],
  ['a header that is sent', 'Bearer-of-the-receiver-abcdef'],
  ['a header of an answer', 'session=of-an-answer-123456'],
  ['a body of an answer', 'customer-4711-in-a-body'],
]);
const secret = (name: string): string => secrets.get(name) ?? '';

test('the log line of an attempt has its ids, times and outcome, and no secret', async () => {
  receiver.answer(({ headers, path }, response) => {
    assert.equal(headers['x-receiver'], secret('a header that is sent'));
    response.writeHead(path.startsWith('/good') ? 200 : 500, { 'set-cookie': secret('a header of an answer') });
    response.end(secret('a body of an answer'));
  });
  const hook = async (path: string): Promise<number> => {
    const id = await engine.addWebhook(`${receiver.url}/${path}/${secret('a path')}?token=${secret('a query')}`);
    await engine.sql`update webhook set headers = ${engine.sql.json({ 'x-receiver': secret('a header that is sent') })}
      where id = ${id}`;
    return id;
  };
  const [good, bad] = [await hook('good'), await hook('bad')];
  const worker = await engine.startWorker();
  const [event] = await engine.publish([1], worker);
  const lines = await until(
    async () => attempts(),
    (found) => found.length === 2,
  );
  const of = (webhook: number) => lines.find((line) => line['webhook'] === webhook) ?? {};
  const common = {
    msg: 'attempt',
    event: event?.id,
    store: engine.storeId,
    shard: shardOf(engine.storeId),
    fence: 1,
    attempt: 1,
    origin: receiver.url,
    isRecorded: true,
  };
  const pick = (line: Line, names: readonly string[]) => Object.fromEntries(names.map((name) => [name, line[name]]));
  const DEBUG = { level: 20, outcome: 'delivered', status: 200, ended: 'successful' };
  assert.deepEqual(pick(of(good), Object.keys({ ...common, ...DEBUG })), { ...common, ...DEBUG });
  const INFO = { level: 30, outcome: 'refused', status: 500, failures: 1 };
  assert.deepEqual(pick(of(bad), Object.keys({ ...common, ...INFO })), { ...common, ...INFO });
  assert.ok(new Date(String(of(bad)['nextAt'])) > engine.clock.now());
  for (const line of lines) {
    for (const name of ['delivery', 'worker', 'requestBytes', 'waitMs', 'exchangeMs', 'recordMs'])
      assert.equal(typeof line[name], 'number', name);
    // Both have one origin: the second may use the connection of the first.
    assert.equal(line['isRepeated'], false);
    assert.equal(typeof line['connectMs'], line['isReused'] === true ? 'undefined' : 'number');
  }

  assert.deepEqual(findSecrets(logs.text(), secrets), []);
  const [row] = await engine.sql<{ body: string }[]>`select response_body as body from attempt_log limit 1`;
  assert.equal(findSecrets(row?.body ?? '', secrets).length, 1, 'the search finds secrets in the row');
});
