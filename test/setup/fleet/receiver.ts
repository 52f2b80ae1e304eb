/** The receiver of a fleet: responds after 200 ms, refuses some first attempts, and records all requests. */
import { createHmac } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { KEY } from '../engine.ts';
import { startReceiver } from '../receiver.ts';
import type { Cleanups } from '../cleanups.ts';
import { lifeIn, type Arrival, type Ledger } from './ledger.ts';
import { SEED, seeded } from '../seed.ts';

const random = seeded(SEED);

const ANSWER_MS = 200;
/** A worker gives one origin at most a quarter of its slots. */
const ORIGINS = 8;
/** Percentages of first attempts that get a 500, and that are reset. */
const REFUSED_PERCENT = 2;
const RESET_PERCENT = 1;

function statusOf(attempt: number): number {
  if (attempt > 1) return 200;
  const percent = random() * 100;
  if (percent < RESET_PERCENT) return 0;
  return percent < RESET_PERCENT + REFUSED_PERCENT ? 500 : 200;
}

/** Every life has its own header prefix. */
const isSigned = (life: string, headers: IncomingHttpHeaders, body: Buffer): boolean =>
  headers[`${life}-webhook-signature`] === createHmac('sha256', KEY).update(body).digest('hex');

async function receiveAt(ledger: Ledger, ends: Cleanups): Promise<string> {
  const receiver = await startReceiver(ends);
  receiver.answer(({ path, headers, body, atMs }, response) => {
    // The bodies are not needed again, and there are hundred thousands.
    receiver.got.length = 0;
    const { id } = JSON.parse(body.toString()) as { id: string };
    const { life, attempt } = lifeIn(headers);
    const arrival: Arrival = {
      life,
      delivery: `${path} ${id}`,
      attempt,
      startedMs: Number(headers['webhook-timestamp']) * 1_000 - performance.timeOrigin,
      arrivedMs: atMs,
      answeredMs: Number.POSITIVE_INFINITY,
      hungUpMs: Number.POSITIVE_INFINITY,
      status: statusOf(attempt),
    };
    ledger.add(arrival);
    if (!isSigned(life, headers, body)) ledger.missigned.push(`${life} ${arrival.delivery}`);
    response.once('close', () => {
      if (arrival.answeredMs === Number.POSITIVE_INFINITY) arrival.hungUpMs = performance.now();
    });
    setTimeout(() => {
      // A disconnected sender gets no response, and the next owner sends again.
      if (response.destroyed || response.socket === null) return;
      arrival.answeredMs = performance.now();
      if (arrival.status === 0) response.socket.resetAndDestroy();
      else response.writeHead(arrival.status).end();
    }, ANSWER_MS);
  });
  return receiver.url;
}

/** Returns its origins. A body is JSON with an `id`. */
export function receiveInto(ledger: Ledger, ends: Cleanups): Promise<string[]> {
  return Promise.all(Array.from({ length: ORIGINS }, () => receiveAt(ledger, ends)));
}
