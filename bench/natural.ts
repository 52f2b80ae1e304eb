/**
 * Deliveries of the program as `npm start` runs it: in a new database, after a pause in which autovacuum collected statistics of empty
 * tables, and with a backlog after `kill -9` of it and of its PostgreSQL. `--events 3000 --rounds 1` is a short one.
 */
import { runCleanups } from '../test/setup/cleanups.ts';
import { startRealisticLoad, type Rate, type Restart } from '../test/setup/realistic-load.ts';
import { bench, heading, print } from './setup/run.ts';
import { spread, table } from './setup/table.ts';

const numbers = { rounds: 3, events: 6_000 };

await bench({ numbers }, async ({ rounds, events }, defer) => {
  const ends: (() => Promise<void>)[] = [];
  defer(() => runCleanups(ends));
  const restarts: Restart[] = [];
  const measured = new Map<string, Rate[]>();
  const note = (when: string, rate: Rate): void => void measured.set(when, [...(measured.get(when) ?? []), rate]);
  for (let round = 0; round < rounds; round += 1) {
    const run = await startRealisticLoad({ after: (end) => void ends.push(end) });
    await run.burst(600);
    note('new database', await run.burst(events));
    await run.pause({ isForced: false });
    note('after a pause', await run.burst(events));
    const restart = await run.restart(events);
    note('backlog after a kill', restart);
    restarts.push(restart);
    await runCleanups(ends.splice(0));
    print(`round ${round + 1} of ${rounds}`);
  }
  heading(`${events} events of one store, in arrays of 100, to one webhook: ${rounds} rounds, median (lowest–highest)`);
  table(
    ['', 'deliveries a second', 'PostgreSQL, µs each'],
    [...measured].map(([when, rates]) => [
      when,
      spread(rates.map(({ perSecond }) => perSecond)),
      spread(rates.map(({ postgresUs }) => postgresUs)),
    ]),
  );
  const of = (key: 'afterReadyMs' | 'afterKillMs' | 'repeated') => spread(restarts.map((restart) => restart[key]));
  print(
    `after a kill, the first delivery arrives ${of('afterReadyMs')} ms after the ready line, ${of('afterKillMs')} ms after the kill;`,
  );
  print(`${of('repeated')} deliveries arrive again`);
});
