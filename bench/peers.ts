/**
 * Halcyon beside others by HTTP, as a platform uses them: one event of 1 KB per request, 64 requests at once, 100 endpoints, each result
 * stored. The others are the floor (bench/setup/floor-process.ts), and Svix and Outpost where `BENCH_SVIX` and `BENCH_OUTPOST` have the path
 * of their program. In each round each program starts with empty databases, alone, and is warmed up. `--brief`: without the costs at fixed rates.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { until } from '../test/setup/until.ts';
import { startChild } from './setup/child.ts';
import type { HttpLoadProcess } from './setup/http-load-process.ts';
import { floor, halcyon, outpost, pssMiBOf, svix, type StartPeer } from './setup/peers.ts';
import type { ReceiverProcess } from './setup/receiver-process.ts';
import { bench, heading, print, type Defer } from './setup/run.ts';
import { spread, table } from './setup/table.ts';

const numbers = { rounds: 3, count: 20_000, warmup: 20_000, connections: 64, endpoints: 100, seconds: 10 };
const RATES = [50, 200, 300, 1_000];
const ARRIVAL_MS = 120_000;
/** Time in which a program that has just started, or was under load, becomes idle. */
const IDLE_MS = 10_000;

const peers: Readonly<Record<string, StartPeer>> = {
  'Halcyon, one process': halcyon('external', 1),
  'Halcyon, two processes': halcyon('external', 2),
  'Halcyon, as it starts': halcyon('embedded'),
  Svix: svix,
  Outpost: outpost,
  floor,
};

type Cost = { program: number; stores: number };
type Round = {
  settings: string;
  perSecond: number;
  burst: Cost;
  idleMiB: number;
  loadedMiB: number;
  /** By rate. */
  paced: ReadonlyMap<number, Cost & { p95: number }>;
};

await bench({ numbers, flags: ['brief'] }, async (options, defer) => {
  const { connections, count } = options;
  const load = await startChild<HttpLoadProcess>(defer, import.meta.resolve('./setup/http-load-process.ts'));
  const receiver = await startChild<ReceiverProcess>(defer, import.meta.resolve('./setup/receiver-process.ts'));
  const urls = await receiver.ask('listen', { ports: options.endpoints, pair: undefined });

  /** Measures one program from its start to its end; undefined if it is not installed. */
  const measure = async (start: StartPeer, own: Defer): Promise<Round | undefined> => {
    const peer = await start(own, urls);
    if (peer === undefined) return undefined;
    let delivered = 0;
    const costOf = async (events: number, work: () => Promise<void>): Promise<Cost> => {
      const before = await peer.cpuMs();
      await work();
      delivered += events;
      await peer.recorded(delivered);
      const after = await peer.cpuMs();
      const us = (key: keyof Cost) => ((after[key] - before[key]) / events) * 1_000;
      return { program: us('program'), stores: us('stores') };
    };
    const burst = async (events: number): Promise<Cost & { perSecond: number }> => {
      let ms = Number.NaN;
      const bodies = peer.bodies(events);
      const cost = await costOf(events, async () => {
        const startedMs = performance.now();
        const arrived = receiver.ask('until', events);
        const { failures } = await load.ask('burst', { target: peer.target, bodies, connections, keeps: false });
        if (failures[0] !== undefined) throw new Error(`${failures.length} failed, first ${failures[0]}`);
        await arrived;
        ms = performance.now() - startedMs;
      });
      return { ...cost, perSecond: (events / ms) * 1_000 };
    };
    const stream = async (perSecond: number): Promise<Cost & { p95: number }> => {
      let p95 = Number.NaN;
      const events = perSecond * options.seconds;
      const bodies = peer.bodies(events);
      await receiver.ask('startTiming', null);
      const given = { target: peer.target, bodies, connections, perSecond, seconds: options.seconds };
      const cost = await costOf(events, async () => {
        const { failures } = await load.ask('stream', given);
        if (failures[0] !== undefined) throw new Error(`${failures.length} failed, first ${failures[0]}`);
        await until(
          () => receiver.ask('timed', null),
          (timed) => timed >= events,
          ARRIVAL_MS,
        );
        ({ p95 } = await receiver.ask('stopTiming', null));
      });
      return { ...cost, p95 };
    };

    await pause(IDLE_MS);
    const idleMiB = await pssMiBOf(await peer.programs());
    await burst(options.warmup);
    const { perSecond, ...cost } = await burst(count);
    const paced = new Map<number, Cost & { p95: number }>();
    if (!options.brief) for (const rate of RATES) paced.set(rate, await stream(rate));
    await pause(IDLE_MS);
    const loadedMiB = await pssMiBOf(await peer.programs());
    return { settings: peer.settings, perSecond, burst: cost, idleMiB, loadedMiB, paced };
  };

  const results = new Map<string, Round[]>();
  for (let round = 0; round < options.rounds; round += 1) {
    for (const [name, start] of Object.entries(peers)) {
      await using ends = new AsyncDisposableStack();
      const measured = await measure(start, (end) => ends.defer(end));
      if (measured === undefined) continue;
      results.set(name, [...(results.get(name) ?? []), measured]);
      print(`${name}, round ${round + 1}: ${Math.round(measured.perSecond)} a second`);
    }
  }

  heading(`${options.rounds} rounds of ${count} events, median (lowest–highest)`);
  for (const name of Object.keys(peers)) print(`${name}: ${results.get(name)?.[0]?.settings ?? 'not installed'}`);
  const of = (rounds: readonly Round[], pick: (round: Round) => number, digits = 0): string =>
    spread(rounds.map(pick), digits);
  const paced = (rounds: readonly Round[], rate: number, key: 'program' | 'stores' | 'p95'): string =>
    of(rounds, (round) => round.paced.get(rate)?.[key] ?? Number.NaN, key === 'p95' ? 1 : 0);
  table(
    ['', 'delivered a second', 'program µs', 'databases and queues µs', 'idle MiB', 'after load MiB'],
    [...results].map(([name, rounds]) => [
      name,
      of(rounds, ({ perSecond }) => perSecond),
      of(rounds, ({ burst }) => burst.program),
      of(rounds, ({ burst }) => burst.stores),
      of(rounds, ({ idleMiB }) => idleMiB),
      of(rounds, ({ loadedMiB }) => loadedMiB),
    ]),
  );
  print('µs: processor time per delivered event. MiB: PSS of the program, without its databases and queues.');
  if (options.brief) return;
  heading('At fixed rates: processor time per event in µs, and p95 from the due time to the receiver in ms');
  table(
    ['', 'a second', 'program µs', 'databases and queues µs', 'p95 ms'],
    [...results].flatMap(([name, rounds]) =>
      RATES.map((rate) => [
        name,
        String(rate),
        paced(rounds, rate, 'program'),
        paced(rounds, rate, 'stores'),
        paced(rounds, rate, 'p95'),
      ]),
    ),
  );
});
