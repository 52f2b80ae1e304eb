/**
 * A webhook is disabled and enabled up to a thousand times through one process while fifty times as many events are published
 * through two: events published after the answer to a disable are not sent to it, events published after the answer to an
 * enable are.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { amountOf } from '../setup/amount.ts';
import { openPublishFixture } from '../setup/publish-fixture.ts';
import { SEED } from '../setup/seed.ts';

const SWITCHES = amountOf('disable-enable-races', { all: 1_000, part: 250 });
const EVENTS = 50 * SWITCHES;
const CONNECTIONS = 4;
/** Publishes that begin and end between two switches. */
const WITHIN = 4;
/** The seed differs in each run; set the printed one here to repeat a run. */

const fixture = await openPublishFixture();
const { sql } = fixture;
const servers = await Promise.all([fixture.start(), fixture.start()]);
const [first, second] = servers.map(({ origin }) => origin) as [string, string];
const webhookId = await fixture.addWebhook(first, 'transaction');

/** A time between the answer to one switch and the request of the next; `number` counts the switches. */
type Phase = { number: number; isOn: boolean; within: number };
/** `phase`: the only one during which the request ran; undefined if a switch ran too. */
type Publish = { ids: readonly number[]; phase: Phase | undefined };

const publishes: Publish[] = [];
let phase: Phase | undefined = { number: 0, isOn: true, within: 0 };
let sent = 0;
let enough = () => {};
let switches = 0;
const isOver = (): boolean => switches === SWITCHES && sent >= EVENTS;

/** Mostly one event, and arrays: as many publishes as fit between the switches, with about that many events in all. */
const sizes = fc.sample(fc.noBias(fc.constantFrom(1, 1, 1, 1, 1, 1, 10, 20)), { numRuns: 10 * EVENTS, seed: SEED });

async function connection(at: number): Promise<void> {
  while (!isOver()) {
    const began = phase;
    const size = sizes[publishes.length] ?? 1;
    const events = Array.from({ length: size }, () => ({
      event: 'transaction/created',
      resource: { id: (sent += 1) },
    }));
    const [event] = events;
    const answer = await fixture.publish(at % 4 === 0 ? first : second, size === 1 ? event : events);
    assert.equal(answer.events.length, size, answer.text);
    publishes.push({ ids: answer.events.map(({ id }) => id), phase: began === phase ? began : undefined });
    if (began !== undefined && began === phase && (began.within += 1) === WITHIN) enough();
  }
}

async function switchAll(): Promise<void> {
  while (switches < SWITCHES) {
    const { promise, resolve } = Promise.withResolvers<void>();
    enough = resolve;
    if ((phase?.within ?? 0) < WITHIN) await promise;
    phase = undefined;
    const number = switches + 1;
    const isOn = number % 2 === 0;
    const { status } = await fixture.ask(first, 'PATCH', `/webhooks/${webhookId}`, {
      body: { is_active: isOn ? '1' : '0' },
    });
    assert.equal(status, 200);
    phase = { number, isOn, within: 0 };
    switches = number;
  }
}

const epochsOf = new Map<number, number[]>();
/** The publishes that ran during such a phase alone, with their deliveries for the webhook. */
const within = (isOn: boolean) =>
  publishes.flatMap(({ ids, phase: during }) =>
    during?.isOn === isOn ? [{ number: during.number, epochs: ids.map((id) => epochsOf.get(id) ?? []) }] : [],
  );

test('changes and events overlap', async (t) => {
  const started = performance.now();
  await Promise.all([switchAll(), ...Array.from({ length: CONNECTIONS }, (_, at) => connection(at))]);
  const seconds = (performance.now() - started) / 1_000;
  const rows = await sql<{ eventId: number; epoch: number }[]>`
    select event_id as "eventId", epoch from delivery where webhook_id = ${webhookId}`;
  for (const { eventId, epoch } of rows) epochsOf.set(eventId, [...(epochsOf.get(eventId) ?? []), epoch]);
  const [on, off] = [within(true).length, within(false).length];
  t.diagnostic(`${publishes.length} publishes of ${sent} events in ${seconds.toFixed(1)} s`);
  t.diagnostic(`while on ${on}, while off ${off}, across a switch ${publishes.length - on - off}`);
  assert.ok(sent >= EVENTS);
  assert.ok(Math.min(on, off) >= (SWITCHES / 2) * WITHIN);
});

test('no event published after the answer to a disable is for the webhook', () => {
  const late = within(false).filter(({ epochs }) => epochs.flat().length > 0);
  assert.deepEqual(late, []);
});

test('every event published after the answer to an enable is for the webhook, once and under its epoch', () => {
  // Each disable begins a new epoch, and deliveries of an older one fail.
  const wrong = within(true).filter(({ number, epochs }) =>
    epochs.some((found) => found.join() !== String(number / 2)),
  );
  assert.deepEqual(wrong, []);
});

test('an event published during a change is for the webhook once at most', () => {
  const most = Math.max(...[...epochsOf.values()].map((epochs) => epochs.length));
  assert.equal(most, 1);
});
