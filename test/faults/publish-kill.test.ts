/**
 * `kill -9` of a server up to two hundred times while many clients publish: answered requests are complete, unanswered ones
 * are complete or left nothing, and requests repeated under their key are there once.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import * as fc from 'fast-check';
import { amountOf } from '../setup/amount.ts';
import { freePort } from '../setup/free-port.ts';
import { openPublishFixture } from '../setup/publish-fixture.ts';
import type { ServerProcess } from '../setup/server-process.ts';
import { until } from '../setup/until.ts';
import { isNothing, processesAtWork, readLeft, readShared, wholeOf } from './publish-kill/ledger.ts';
import { requestOf, shapes, type Request } from './publish-kill/load.ts';
import { SEED } from '../setup/seed.ts';

const KILLS = amountOf('publish-kill', { all: 200, part: 50 });
/** Servers at a time, so that some publish while others start. */
const PLACES = 5;
const CONNECTIONS = 4;
/** A server is killed while requests are in progress: after a part of the time that the one before took, or a little more. */
const LAG_MAX_PERCENT = 130;
const REQUESTS_PER_LIFE = 100;
/** The seed differs in each run; set the printed one here to repeat a run. */

const fixture = await openPublishFixture();
const { sql } = fixture;
// The first stops gracefully and leaves compiled code to the others; `harbour` runs to the end, for repeated requests.
await (await fixture.start()).end('SIGTERM');
const harbour = await fixture.start();
const webhooks = { transaction: 2, subscription: 1, subscription_event: 1 };
for (const [resource, count] of Object.entries(webhooks)) {
  for (let n = 0; n < count; n += 1) await fixture.addWebhook(harbour.origin, resource);
}

const requests: Request[] = [];
const unexpected: string[] = [];
const asked = { again: 0, atOnce: 0 };
const living = new Set<ServerProcess>([harbour]);

/** Returns whether there was an answer at all. An error fails the test: all requests are valid. */
async function send(server: ServerProcess, request: Request): Promise<boolean> {
  const answer = await fixture.publish(server.origin, request.body, request.key).catch(() => undefined);
  if (answer === undefined) return false;
  if (answer.events.length === request.events.length) request.answer = 'published';
  else unexpected.push(`${answer.status} ${answer.text}`);
  return true;
}

/** Repeats the request at another server, which may be killed as well, until one answers. */
async function askAgain(request: Request): Promise<void> {
  asked.again += 1;
  for (let at = request.n; ; at += 1) {
    const others = [...living];
    const other = others[at % others.length];
    if (other !== undefined && (await send(other, request))) return;
  }
}

const life = fc.noBias(
  fc.record({
    killAfter: fc.nat(REQUESTS_PER_LIFE / 4),
    lagPercent: fc.nat(LAG_MAX_PERCENT),
    requests: fc.array(shapes, { minLength: REQUESTS_PER_LIFE, maxLength: REQUESTS_PER_LIFE }),
  }),
);
const lives = fc.sample(life, { numRuns: KILLS, seed: SEED });

/** A server starts, receives publishes over several connections, and is killed; then requests with a key are repeated. */
async function live(port: number, { killAfter, lagPercent, requests: plan }: (typeof lives)[number]): Promise<void> {
  const server = await fixture.start(port);
  living.add(server);
  const { promise: isTime, resolve: now } = Promise.withResolvers<void>();
  let sent = 0;
  let tookMs = 0;
  const unanswered: Request[] = [];
  const connection = async () => {
    for (let shape = plan[sent]; shape !== undefined; shape = plan[sent]) {
      const request = requestOf(requests.length, shape);
      requests.push(request);
      if (sent === killAfter) now();
      sent += 1;
      const since = performance.now();
      if (!(await send(server, request))) return void unanswered.push(request);
      tookMs = performance.now() - since;
    }
  };
  const connections = Promise.all(Array.from({ length: CONNECTIONS }, connection));
  await isTime;
  await delay((tookMs * lagPercent) / 100);
  living.delete(server);
  asked.atOnce += 1;
  await server.end('SIGKILL');
  await connections;
  await Promise.all(unanswered.filter(({ keys }) => keys.length > 0).map(askAgain));
}

async function place(): Promise<void> {
  const port = await freePort();
  for (let next = lives.pop(); next !== undefined; next = lives.pop()) await live(port, next);
}

let left: Awaited<ReturnType<typeof readLeft>> = () => assert.fail('the tables are read at the end');
const silent = () => requests.filter(({ answer }) => answer === 'none');

test('kills happen during requests, of which some are committed and some are not', async (t) => {
  const started = performance.now();
  await Promise.all(Array.from({ length: PLACES }, place));
  await harbour.end('SIGTERM');
  const seconds = (performance.now() - started) / 1_000;
  // A server that was killed may have left a running statement.
  await until(
    () => processesAtWork(sql),
    (count) => count === 0,
  );
  left = await readLeft(sql);
  const committed = silent().filter(({ n }) => !isNothing(left(n))).length;
  t.diagnostic(`${asked.atOnce} kills in ${seconds.toFixed(1)} s, ${requests.length} requests`);
  t.diagnostic(
    `never answered: ${committed} committed, ${silent().length - committed} absent; repeated: ${asked.again}`,
  );
  assert.equal(asked.atOnce, KILLS);
  assert.ok(committed > 0, 'some were committed and not answered');
  assert.ok(silent().length > committed, 'some were neither committed nor answered');
  assert.ok(asked.again > KILLS / 2, 'many were repeated');
});

test('a running server rejects nothing', () => assert.deepEqual(unexpected, []));

test('answered requests are complete, and requests repeated under their key are there once', () => {
  for (const request of requests.filter(({ answer }) => answer === 'published')) {
    assert.deepEqual(left(request.n), wholeOf(request, webhooks), JSON.stringify(request));
  }
});

test('unanswered requests are complete or have left nothing', () => {
  for (const request of silent()) {
    const found = left(request.n);
    if (!isNothing(found)) assert.deepEqual(found, wholeOf(request, webhooks), JSON.stringify(request));
  }
});

test('the versions of the shared resources have no gap and no repeat, and the last is the latest', async () => {
  const shared = await readShared(sql);
  assert.ok(shared.length > 1);
  for (const { id, version, isLatest, events, versions } of shared) {
    assert.deepEqual(
      { id, version, isLatest, versions },
      { id, version: events, isLatest: true, versions: Array.from({ length: events }, (_, at) => at + 1) },
    );
  }
});
