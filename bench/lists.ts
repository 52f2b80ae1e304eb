/**
 * How long a page of a list takes in a store with a month of history, over HTTP against the program: one request after another,
 * each list several times. The first request of each list is given apart: PostgreSQL has planned nothing for it and has read
 * nothing. `--plans`: the plans that PostgreSQL used. `--live`: while events are published and delivered.
 * The defaults are the whole run; `--events 20000 --resources 10000` is a short one.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { letAppIn } from '../test/setup/grant-access.ts';
import { seedHistory } from './setup/history-seed.ts';
import { startLiveLoad } from './setup/live-load.ts';
import { bench, heading, print } from './setup/run.ts';
import { startServer } from './setup/server.ts';
import { quantile, spread, table } from './setup/table.ts';
import { seedClient } from './setup/token-seed.ts';

const numbers = { rounds: 7, events: 1_000_000, days: 30, resources: 550_000, webhooks: 100, limit: 20 };
const DELIVERIES_PER_EVENT = 1.5;
const SECOND_MS = 1_000;
const LIVE_PER_SECOND = 200;
const LIVE_SECONDS = 20;
const LIVE_ROUNDS = 3;
const READERS = [
  { name: 'alone', pauseMs: undefined },
  { name: 'a reader who opens one of these pages after another, a fifth of a second apart', pauseMs: 200 },
  { name: 'a program that requests them without a pause', pauseMs: 0 },
];
const DAY_MS = 86_400_000;
const STOCK = encodeURIComponent('*stock 21*');

type List = { name: string; path: string; goalMs: number };

/** A time as filters take it. */
const at = (ms: number): string => new Date(ms).toISOString().slice(0, 19);

await bench({ numbers, flags: ['plans', 'live'] }, async (options, defer) => {
  const server = await startServer(defer, 'external', { observed: true });
  const { origin, sql, secretKey } = server;
  const seeded = await seedClient(sql);
  const { storeId } = seeded;
  const now = new Date();
  const app = await createClient(sql, { name: 'App', redirectUris: ['https://app.example.com/'], trusted: false, now });
  const grant = { clientId: app.client_id, userId: seeded.userId, storeId, now };
  const { access_token: token } = await letAppIn({ sql, baseUrl: origin }, grant);
  const startedMs = performance.now();
  const [first = 0] = await seedHistory(sql, storeId, secretKey, {
    days: options.days,
    events: options.events,
    deliveriesPerEvent: DELIVERIES_PER_EVENT,
    resources: options.resources,
    webhooks: options.webhooks,
  });
  const [sizes] = await sql<{ deliveries: number; ofFirst: number; events: number }[]>`
    select (select count(*) from delivery_done)::int as deliveries,
      (select count(*) from delivery_done where webhook_id = ${first})::int as "ofFirst", (select count(*) from event)::int as events`;
  heading(
    `Lists of a store with ${sizes?.events} events, ${sizes?.deliveries} deliveries (${sizes?.ofFirst} of one webhook), ${options.resources} resources`,
  );
  print(`seeded in ${Math.round((performance.now() - startedMs) / SECOND_MS)} s; pages of ${options.limit}`);

  const headers = { 'service-api-version': '1', authorization: `Bearer ${token}`, accept: 'application/hal+json' };
  const get = async (path: string) => {
    const beganMs = performance.now();
    const response = await fetch(origin + path, { headers });
    const text = await response.text();
    return { status: response.status, text, ms: performance.now() - beganMs };
  };
  const totalOf = async (path: string): Promise<number> => {
    const { text } = await get(`${path}?limit=1`);
    return (JSON.parse(text) as { total_items?: number }).total_items ?? 0;
  };
  const [hook, store] = [`/webhooks/${first}`, `/stores/${storeId}`];
  const last = (total: number): number => Math.max(0, Math.floor((total - 1) / options.limit) * options.limit);
  const totals = {
    statuses: await totalOf(`${hook}/statuses`),
    logs: await totalOf(`${hook}/logs`),
    events: await totalOf(`${store}/events`),
    all: await totalOf(`${store}/statuses`),
  };
  const day = now.getTime() - 9 * DAY_MS;
  const ofDay = `date_created:greaterthan=${at(day)}&date_created:lessthan=${at(day + DAY_MS)}`;
  const page = (path: string, query: string): string =>
    `${path}?${['limit', String(options.limit)].join('=')}${query === '' ? '' : `&${query}`}`;
  const list = (name: string, path: string, query: string, goalMs: number): List => ({
    name,
    path: page(path, query),
    goalMs,
  });
  const [statuses, logs, events, all] = [`${hook}/statuses`, `${hook}/logs`, `${store}/events`, `${store}/statuses`];
  const lists: List[] = [
    list('deliveries: first page', statuses, '', 15),
    list('deliveries: 10th page', statuses, `offset=${9 * options.limit}`, 15),
    list('deliveries: last page', statuses, `offset=${last(totals.statuses)}`, 30),
    list('attempts: first page', logs, '', 15),
    list('attempts: last page', logs, `offset=${last(totals.logs)}`, 30),
    list('deliveries: status=failed', statuses, 'status=failed', 30),
    list('deliveries: status=pending', statuses, 'status=pending', 30),
    list('deliveries: attempts > 1', statuses, 'attempts:greaterthan=1', 30),
    list('deliveries: of a day', statuses, ofDay, 50),
    list('deliveries: event=transaction/created', statuses, 'event=transaction%2Fcreated', 50),
    list('deliveries: order=date_created', statuses, 'order=date_created', 50),
    list('deliveries: of a resource', statuses, 'resource_id=2120', 30),
    list('deliveries of the store: first page', all, '', 50),
    list('deliveries of the store: 10th page', all, `offset=${9 * options.limit}`, 50),
    list('deliveries of the store: middle page', all, `offset=${last(Math.floor(totals.all / 2))}`, 100),
    list('deliveries of the store: last page', all, `offset=${last(totals.all)}`, 100),
    list('deliveries of the store: status=failed', all, 'status=failed', 50),
    list('deliveries of the store: status=pending', all, 'status=pending', 50),
    list('deliveries of the store: attempts > 1', all, 'attempts:greaterthan=1', 50),
    list('deliveries of the store: of a resource', all, 'resource_id=2120', 50),
    list('deliveries of the store: of a day', all, ofDay, 100),
    list('deliveries of the store: event=transaction/created', all, 'event=transaction%2Fcreated', 100),
    list('deliveries: response_code=500', statuses, 'response_code=500', 50),
    list('deliveries: response_body=*stock 21*, failed', statuses, `status=failed&response_body=${STOCK}`, 50),
    list('deliveries: response_body=*stock 21*, of a day', statuses, `response_body=${STOCK}&${ofDay}`, 100),
    list('deliveries: response_body=*stock 21*', statuses, `response_body=${STOCK}`, 2_000),
    list('deliveries of the store: response_code=500', all, 'response_code=500', 100),
    list('deliveries of the store: response_body=*stock 21*, failed', all, `status=failed&response_body=${STOCK}`, 100),
    list('deliveries of the store: response_body=*stock 21*, of a day', all, `response_body=${STOCK}&${ofDay}`, 500),
    list('deliveries of the store: response_body=*stock 21*', all, `response_body=${STOCK}`, 2_000),
    list('attempts: of a day', logs, ofDay, 50),
    list('events: first page', events, '', 15),
    list('events: last page', events, `offset=${last(totals.events)}`, 30),
    list('events: of a resource', events, 'resource_id=2120', 15),
    list('events: of a day', events, ofDay, 30),
    list('events: event=transaction/created', events, 'event=transaction%2Fcreated', 50),
    list('attempts: of a resource', logs, 'resource_id=2120', 30),
    list('changelog: first page', `${store}/changelogs`, '', 15),
    list('changelog: newest first', `${store}/changelogs`, 'order=date_created%20desc', 15),
    list('changelog: of a day', `${store}/changelogs`, ofDay, 15),
    list('transactions: first page', `${store}/transactions`, '', 30),
    list(
      'transactions: modified in a day',
      `${store}/transactions`,
      ofDay.replaceAll('date_created', 'date_modified'),
      50,
    ),
    list('transactions: customer_id', `${store}/transactions`, 'customer_id=77', 50),
    { name: 'overview', path: `${store}/overview`, goalMs: 50 },
  ];
  if (options.plans) {
    const settings = ['log_min_duration = 5', 'log_analyze = on', 'log_buffers = on', 'log_nested_statements = on'];
    for (const setting of settings) await sql.unsafe(`alter system set auto_explain.${setting}`);
    await sql`select pg_reload_conf()`;
  }
  const [folder] = await sql<{ data: string }[]>`select current_setting('data_directory') as data`;
  /** The log of PostgreSQL from a byte on, and its length. */
  const readLog = async (from: number): Promise<{ text: string; length: number }> => {
    const bytes = await readFile(join(folder?.data ?? '', '../server.log'));
    return { text: bytes.subarray(from).toString(), length: bytes.length };
  };
  const rows: string[][] = [];
  const pagesRead = async (): Promise<number> => {
    const [row] = await sql<{ pages: number }[]>`
      select sum(shared_blks_hit + shared_blks_read)::float8 as pages from pg_stat_statements`;
    return row?.pages ?? Number.NaN;
  };
  for (const { name, path, goalMs } of lists) {
    const logged = options.plans ? (await readLog(0)).length : 0;
    const cold = await get(path);
    if (options.plans) print(`\n${name}\n${(await readLog(logged)).text}`);
    const times: number[] = [];
    const before = await pagesRead();
    let refused = 0;
    for (let round = 0; round < options.rounds; round += 1) {
      const { ms, status } = await get(path);
      times.push(ms);
      if (status !== 200) refused += 1;
    }
    const median = quantile(times, 0.5);
    rows.push([
      name,
      cold.ms.toFixed(0),
      median.toFixed(1),
      Math.max(...times).toFixed(0),
      String(goalMs),
      median <= goalMs && refused === 0 ? '' : 'not met',
      Math.round(((await pagesRead()) - before) / options.rounds).toLocaleString('en'),
      refused > 0 ? `${refused} of ${options.rounds} refused` : '',
    ]);
  }
  table(['', 'first ms', 'median ms', 'longest ms', 'goal ms', '', 'pages read', ''], rows);

  if (!options.live) return;
  const publishFor = await startLiveLoad(defer, server, storeId);
  await publishFor(LIVE_PER_SECOND, 2);
  /** Requests the lists in turn, with a pause after each, until it is ended; returns how many. */
  const read = async (pauseMs: number, { signal }: AbortController): Promise<number> => {
    let count = 0;
    for (; !signal.aborted; count += 1) {
      await get(lists[count % lists.length]?.path ?? '/');
      await wait(pauseMs);
    }
    return count;
  };
  const measured = READERS.map(() => ({ p95: [] as number[], pages: [] as number[] }));
  for (let round = 0; round < LIVE_ROUNDS; round += 1) {
    for (const [index, { pauseMs }] of READERS.entries()) {
      const over = new AbortController();
      const reading = pauseMs === undefined ? 0 : read(pauseMs, over);
      measured[index]?.p95.push((await publishFor(LIVE_PER_SECOND, LIVE_SECONDS)).p95);
      over.abort();
      measured[index]?.pages.push(await reading);
    }
  }
  heading(`${LIVE_PER_SECOND} events a second of this store, published and delivered, until received`);
  table(
    ['', 'p95 ms', 'pages meanwhile'],
    measured.map(({ p95, pages }, index) => [READERS[index]?.name ?? '', spread(p95, 1), spread(pages)]),
  );
});
