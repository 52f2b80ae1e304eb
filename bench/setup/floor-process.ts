/**
 * The least that a durable webhook service in Node does, as the floor of bench/peers.ts: each event and its result is written to PostgreSQL
 * with fsync, in batches of what arrived meanwhile. It has no authentication, signatures, retries, versions, filters or isolation.
 */
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { Pool } from 'undici';
import { openPool, type DatabaseAddress, type Sql } from '#db/pool.ts';
import { answer } from './child.ts';

/** The last part of the path is the number of the endpoint: `POST /events/7`. */
type Event = { endpoint: number; body: string; response: ServerResponse };
type Result = { id: number; status: number };

const CONNECTIONS_OF_AN_ENDPOINT = 8;

let server: Server | undefined;
let sql: Sql | undefined;
let pools: Pool[] = [];

/** Returns a function that collects items, and writes what has arrived while the previous batch was written. */
function inBatches<T>(write: (items: T[]) => Promise<void>): (item: T) => void {
  let waiting: T[] = [];
  let isWriting = false;
  const writeAll = async (): Promise<void> => {
    isWriting = true;
    while (waiting.length > 0) {
      const items = waiting;
      waiting = [];
      await write(items);
    }
    isWriting = false;
  };
  return (item) => {
    waiting.push(item);
    if (!isWriting) void writeAll();
  };
}

function send(id: number, { endpoint, body }: Event, record: (result: Result) => void): void {
  let status = 0;
  pools[endpoint % pools.length]?.dispatch(
    { method: 'POST', path: '/', headers: { 'content-type': 'application/json', 'webhook-id': String(id) }, body },
    {
      onRequestStart: () => {},
      onResponseStart: (_controller, code) => void (status = code),
      onResponseData: () => {},
      onResponseEnd: () => record({ id, status }),
      onResponseError: () => record({ id, status: 0 }),
    },
  );
}

const handlers = {
  start: async (given: { address: DatabaseAddress; urls: readonly string[]; port: number }): Promise<void> => {
    const database = openPool(given.address, { connections: 2, applicationName: 'floor' });
    sql = database;
    pools = given.urls.map(
      (url) => new Pool(url, { connections: CONNECTIONS_OF_AN_ENDPOINT, pipelining: 1, headersTimeout: 0 }),
    );
    await database`create table floor_event (id bigint generated always as identity primary key, endpoint int, body text)`;
    await database`create table floor_result (id bigint primary key, status int)`;
    const record = inBatches<Result>(async (results) => {
      const [ids, statuses] = [results.map(({ id }) => id), results.map(({ status }) => status)];
      await database`insert into floor_result select * from unnest(${ids}::bigint[], ${statuses}::int[])`;
    });
    const publish = inBatches<Event>(async (events) => {
      const [endpoints, bodies] = [events.map(({ endpoint }) => endpoint), events.map(({ body }) => body)];
      const rows = await database<{ id: number }[]>`
        insert into floor_event (endpoint, body)
        select * from unnest(${endpoints}::int[], ${bodies}::text[]) returning id::float8 as id`;
      for (const [at, event] of events.entries()) {
        event.response.writeHead(201, { 'content-length': 0 }).end();
        send(rows[at]?.id ?? Number.NaN, event, record);
      }
    });
    server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const endpoint = Number(request.url?.slice(request.url.lastIndexOf('/') + 1));
        publish({ endpoint, body: Buffer.concat(chunks).toString(), response });
      });
    }).listen(given.port, '127.0.0.1');
    await once(server, 'listening');
  },
  pid: (_: null): number => process.pid,
};

export type FloorProcess = typeof handlers;
answer(handlers, async () => {
  server?.closeAllConnections();
  await Promise.all(pools.map((pool) => pool.destroy()));
  await sql?.end({ timeout: 0 });
});
