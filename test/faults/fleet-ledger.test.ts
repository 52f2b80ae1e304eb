/** The ledger of a fleet detects duplicates without a fault that explains them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ledger, nameOf, suspensionsIn, type Arrival } from '../setup/fleet/ledger.ts';

const arrival = (life: string, arrivedMs: number, also: Partial<Arrival> = {}): Arrival => ({
  life,
  delivery: '/1/0 x',
  attempt: 1,
  startedMs: arrivedMs,
  arrivedMs,
  answeredMs: arrivedMs + 200,
  hungUpMs: Number.POSITIVE_INFINITY,
  status: 200,
  ...also,
});

function ledgerOf(...arrivals: Arrival[]): Ledger {
  const ledger = new Ledger();
  for (const one of arrivals) ledger.add(one);
  return ledger;
}

const IN_FLIGHT = { answeredMs: Number.POSITIVE_INFINITY };
const NOTHING: ReadonlySet<string> = new Set();

test('deliveries that a killed worker had in flight or unrecorded come twice, and are explained', () => {
  const inFlight = ledgerOf(arrival('l1', 1_000, IN_FLIGHT), arrival('l2', 3_000));
  const unrecorded = ledgerOf(arrival('l1', 1_000), arrival('l2', 3_000));
  for (const ledger of [inFlight, unrecorded]) {
    ledger.fault('l1', 'killed', 1_300);
    assert.deepEqual(ledger.unexplained(NOTHING), []);
  }
});

test('a delivery that a worker recorded before it was killed comes once', () => {
  const before = arrival('l1', 1_000);
  const ledger = ledgerOf(before, arrival('l2', 3_000));
  ledger.fault('l1', 'killed', 1_300);
  assert.equal(ledger.unexplained(new Set([nameOf(before)])).length, 1);
});

test('a delivery that a worker sends twice without a fault is not explained by its later end', () => {
  const ledger = ledgerOf(arrival('l1', 1_000), arrival('l1', 1_300));
  ledger.fault('l1', 'killed', 1_600);
  assert.equal(ledger.unexplained(NOTHING).length, 1);
});

test('a delivery that was sent long after a fault is not explained by it', () => {
  const ledger = ledgerOf(arrival('l1', 9_000), arrival('l2', 9_500));
  ledger.fault('l1', 'frozen', 1_000);
  assert.equal(ledger.unexplained(NOTHING).length, 1);
});

test('a duplicate of another worker is not explained by the end of this one', () => {
  const ledger = ledgerOf(arrival('l1', 1_000), arrival('l2', 3_000));
  ledger.fault('l2', 'killed', 1_300);
  assert.equal(ledger.unexplained(NOTHING).length, 1);
});

test('a worker that was frozen may send again deliveries that it records only later', () => {
  const again = arrival('l1', 4_000);
  const ledger = ledgerOf(arrival('l1', 1_000), again);
  ledger.fault('l1', 'frozen', 1_300);
  assert.deepEqual(ledger.unexplained(new Set([nameOf(again)])), []);
});

test('a reset of a used connection explains one more request of the attempt, and not two', () => {
  const reset = { status: 0 };
  const once = ledgerOf(arrival('l1', 1_000, reset), arrival('l1', 1_210));
  assert.deepEqual(once.duplicates(), []);
  const twice = ledgerOf(arrival('l1', 1_000, reset), arrival('l1', 1_210, reset), arrival('l1', 1_420));
  assert.equal(twice.duplicates().length, 1);
  const afterAnother = ledgerOf(arrival('l1', 1_000), arrival('l1', 3_000, reset), arrival('l1', 3_210));
  assert.equal(afterAnother.duplicates().length, 1);
});

test('an attempt that is repeated after a fault may be sent once more as well', () => {
  const reset = { status: 0 };
  const ledger = ledgerOf(arrival('l1', 1_000, reset), arrival('l1', 3_000, reset), arrival('l1', 3_210));
  assert.equal(ledger.unexplained(NOTHING).length, 1);
  ledger.fault('l1', 'cut', 1_300);
  assert.deepEqual(ledger.unexplained(NOTHING), []);
});

test('a hang-up is explained by a fault of its worker or by its log, and by nothing else', () => {
  const atMs = 5_000;
  const hangUp = arrival('l1', atMs - 100, { ...IN_FLIGHT, hungUpMs: atMs });
  const silent = ledgerOf(hangUp);
  silent.fault('l2', 'killed', atMs);
  assert.deepEqual(silent.strangeHangUps(), [hangUp]);
  const hurt = ledgerOf(hangUp);
  hurt.fault('l1', 'killed', atMs);
  assert.deepEqual(hurt.strangeHangUps(), []);
  const time = new Date(performance.timeOrigin + atMs).toISOString();
  const said = `{"level":"warn","time":"${time}","msg":"lease expired: no heartbeat was confirmed in time; running attempts are aborted; none starts until a heartbeat is confirmed"}\n`;
  const logged = ledgerOf(hangUp);
  logged.readSuspensions(() => suspensionsIn('l1', said));
  assert.deepEqual(logged.strangeHangUps(), []);
});

test('what an attempt owned depends on the first fault of its worker between its start and its arrival', () => {
  const late = arrival('l1', 3_000, { startedMs: 1_000 });
  const ledger = ledgerOf(late);
  ledger.fault('l1', 'frozen', 2_500);
  ledger.fault('l1', 'frozen', 900);
  ledger.fault('l1', 'killed', 1_300);
  ledger.fault('l2', 'killed', 1_100);
  ledger.fault('l1', 'killed', 3_100);
  assert.equal(ledger.faultBefore(late)?.atMs, 1_300);
  assert.equal(ledger.faultBefore(arrival('l1', 3_000)), undefined);
});
