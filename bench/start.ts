/** P9: from `npm start`'s command to the first answered request, on an empty data folder and on one that was used. */
import { setTimeout as delay } from 'node:timers/promises';
import { placeForFixture, startFixture, type Fixture, type FixturePlace } from '../test/setup/fixture.ts';
import { bench, heading, print, type Defer } from './setup/run.ts';
import { spread, table } from './setup/table.ts';

const GOAL_MS = { cold: 3_000, warm: 800 } as const;
const POLL_MS = 5;

async function untilAnswered(url: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const response = await fetch(url, { headers: { 'SERVICE-API-VERSION': '1' }, signal }).catch(() => undefined);
    if (response?.status === 200) return;
    if (response !== undefined) throw new Error(`${url} answered ${response.status}`);
    await delay(POLL_MS, undefined, { signal });
  }
}

/** Starts the fixture and stops it again; answers the milliseconds to the first answer and to its "is ready". */
async function startOnce(place: FixturePlace, defer: Defer): Promise<{ answeredMs: number; readyMs: number }> {
  let starting: Promise<Fixture> | undefined;
  // Before the spawn: no process may start that would not be stopped.
  defer(async () => void (await (await starting?.catch(() => undefined))?.end('SIGTERM')));
  const startedAt = performance.now();
  const since = () => performance.now() - startedAt;
  const given = new AbortController();
  const answered = untilAnswered(`http://127.0.0.1:${place.env['PORT']}/`, given.signal).then(since);
  answered.catch(() => {});
  starting = startFixture(place);
  // A fixture that does not come up must not leave us asking for ever.
  starting.catch((error: unknown) => given.abort(error));
  try {
    const fixture = await starting;
    const readyMs = since();
    const answeredMs = await answered;
    const how = await fixture.end('SIGTERM');
    if (how !== 0) throw new Error(`The fixture ended with ${String(how)}:\n${fixture.output()}`);
    return { answeredMs, readyMs };
  } finally {
    given.abort();
    await answered.catch(() => {});
  }
}

await bench({ numbers: { rounds: 7 } }, async ({ rounds }, defer) => {
  heading('P9: node src/main.ts serve, from the spawn to the first 200 on /');
  print('cold   an empty HALCYON_DATA: initdb, migrations, demo data and all');
  print('warm   the same folder again after a clean stop');
  const results = { cold: [] as number[], warm: [] as number[] };
  const ready = { cold: [] as number[], warm: [] as number[] };
  for (let round = 0; round < rounds; round += 1) {
    const place = await placeForFixture();
    defer(place.remove);
    for (const kind of ['cold', 'warm'] as const) {
      const { answeredMs, readyMs } = await startOnce(place, defer);
      results[kind].push(answeredMs);
      ready[kind].push(readyMs);
    }
    await place.remove();
  }
  heading(`${rounds} rounds: median (lowest–highest)`);
  table(
    ['', 'first answer ms', 'says ready ms', 'goal ms'],
    (['cold', 'warm'] as const).map((kind) => [
      kind,
      spread(results[kind]),
      spread(ready[kind]),
      `< ${GOAL_MS[kind].toLocaleString('en')}`,
    ]),
  );
});
