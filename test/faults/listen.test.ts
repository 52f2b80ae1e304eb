/**
 * `halcyon listen` through restarts of its server, which is killed during deliveries while others publish: events accepted
 * before, meanwhile and afterwards are forwarded, and none twice, because the listener remembers those that it has begun.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { provideCommandLineClient } from '#identity/oauth/clients/clients.ts';
import { startTestApp } from '../setup/app.ts';
import { testDatabase } from '../setup/database.ts';
import { cleanups } from '../setup/cleanups.ts';
import { freePort } from '../setup/free-port.ts';
import { printed } from '../setup/command.ts';
import { personAtTerminal } from '../setup/person-at-terminal.ts';
import { startReceiver } from '../setup/receiver.ts';
import { serversOver } from '../setup/server-process.ts';
import { until } from '../setup/until.ts';

const KILLS = 4;
/** Events between two kills. */
const FORWARDED_LEAST = 60;
/** Events while no listener is connected. */
const PUBLISHED_MEANWHILE_LEAST = 40;
const EVENTS_AT_ONCE = 5;
const BEHIND_MAX = 150;
const APP_MS = 20;

const ends = cleanups();
const { sql, address } = await testDatabase(ends);
const port = await freePort();
const env = { BASE_URL: `http://127.0.0.1:${port}`, API_RATE_PER_SECOND: '0', OUTBOUND_ALLOW: '127.0.0.0/8' };
const start = serversOver(address, ends, env);
// Another server over the same database accepts publishes, also while the listener's is away.
const publisher = await startTestApp({ sql, roles: ['serve'] });
await provideCommandLineClient(sql, publisher.clock.now());

test('events published before, during and after a kill of the server are forwarded once', async (t) => {
  const receiver = await startReceiver(ends);
  receiver.answer((_got, response) => void setTimeout(() => response.writeHead(200).end(), APP_MS));
  let server = await start(port);
  const person = await personAtTerminal(
    server.origin,
    { email: 'owner@example.com', password: 'a long password' },
    ends,
  );
  assert.equal((await person.login()).code, 0);
  const listener = person.start('listen', '--forward', receiver.url);
  await printed(listener, /(Listening at)/);

  const published: number[] = [];
  const over = new AbortController();
  let behindMax = BEHIND_MAX;
  const publishing = (async () => {
    while (!over.signal.aborted) {
      const ids = Array.from({ length: EVENTS_AT_ONCE }, (_, n) => published.length + n + 1);
      const body = ids.map((id) => ({ event: 'transaction/created', resource: { id } }));
      const path = `/stores/${publisher.storeId}/events`;
      const response = await publisher.api('POST', path, { token: publisher.platformToken, body });
      assert.equal(response.status, 200);
      published.push(...ids);
      // No faster than they are forwarded, because the listener has to catch up.
      await until(
        async () => published.length - receiver.got.length,
        (behind) => behind < behindMax || over.signal.aborted,
      );
    }
  })();

  const inFlight: number[] = [];
  for (let kill = 0; kill < KILLS; kill += 1) {
    const forwarded = receiver.got.length;
    await until(
      async () => receiver.got.length,
      (count) => count > forwarded + FORWARDED_LEAST,
    );
    await until(
      async () => receiver.open(),
      (open) => open > 0,
    );
    inFlight.push(receiver.open());
    await server.end('SIGKILL');
    behindMax = BEHIND_MAX + 2 * PUBLISHED_MEANWHILE_LEAST;
    const before = published.length;
    await until(
      async () => published.length,
      (count) => count > before + PUBLISHED_MEANWHILE_LEAST,
    );
    server = await start(port);
    behindMax = BEHIND_MAX;
  }
  over.abort();
  await publishing;
  const idOf = (body: Buffer): number => (JSON.parse(body.toString()) as { id: number }).id;
  const ids = () => receiver.got.map(({ body }) => idOf(body));
  await until(
    async () => new Set(ids()).size,
    (count) => count === published.length,
  );
  const states = () =>
    sql<{ state: string; count: number }[]>`select state, count(*)::int from delivery_done group by 1`;
  const done = await until(states, (rows) => rows.reduce((sum, { count }) => sum + count, 0) === published.length);
  listener.kill('SIGINT');
  assert.equal((await listener.ended).code, 0, listener.said());

  t.diagnostic(`${published.length} events, ${KILLS} kills, in flight at each: ${inFlight.join(' ')}`);
  const counts = Map.groupBy(ids(), (id) => id);
  assert.deepEqual(
    published.filter((id) => counts.get(id)?.length !== 1),
    [],
    'each once',
  );
  assert.deepEqual(
    done.map(({ state }) => state),
    ['successful'],
    'and the server has each answer',
  );
  // A disconnection that ends before the listener has processed what it had read is not printed.
  const countOf = (words: RegExp): number => listener.said().match(words)?.length ?? 0;
  assert.ok(countOf(/Disconnected/g) >= 1 && countOf(/Disconnected/g) <= KILLS, listener.said());
  assert.equal(countOf(/Reconnected/g), countOf(/Disconnected/g));
});
