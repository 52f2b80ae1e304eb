/**
 * P8: a page of webhooks in every format there is, beside `JSON.stringify` of the ready-made HAL object. Once a page that is
 * as ready as that object, which is what the goals mean: its strings are in one piece. And once pages as requests make them,
 * each rendered once, beside objects that were never written before: what V8 put off when strings were put together is then
 * paid by the first reader.
 */
import { html } from '#hypermedia/markup.ts';
import { formats } from '#hypermedia/render.ts';
import { naming, pageOf } from './setup/page.ts';
import { bench, heading, print } from './setup/run.ts';
import { ratios, spread, table } from './setup/table.ts';

const numbers = { rounds: 9, count: 1_000, webhooks: 20 };

const [{ render: renderDefault }] = formats;

/** By the first media type of a format. */
const goals: Readonly<Record<string, number>> = {
  'application/hal+json': 0.5,
  'application/hal+xml': 0.3,
  'application/vnd.siren+json': 0.3,
  'text/html': 0.1,
};

/** So many fresh pages are made at a time, outside of what is measured: more would not fit into a processor's cache. */
const BATCH = 20;

type Way = { name: string; make: () => unknown; write: (made: never) => string };

const wayOf = <Made>(name: string, make: () => Made, write: (made: Made) => string): Way => ({ name, make, write });

let sink = 0;
/** µs for one. Reading a character makes one piece of a text that was written as many, as sending it would. */
function measure({ write }: Way, made: readonly unknown[], times: number): number {
  const startedAt = performance.now();
  for (let time = 0; time < times; time += 1) {
    for (const one of made) sink += write(one as never).charCodeAt(0);
  }
  return ((performance.now() - startedAt) * 1_000) / (times * made.length);
}

await bench({ numbers }, async ({ rounds, count, webhooks }) => {
  const page = () => pageOf(webhooks);
  const written = renderDefault(page(), naming);
  const view = { nav: html``, session: undefined };
  const ways = [
    wayOf('JSON.stringify', () => JSON.parse(written) as unknown, JSON.stringify),
    ...formats.map(({ mediaTypes: [name], render }) => wayOf(name, page, (made) => render(made, naming, view))),
  ];
  const kept = new Map(ways.map((way) => [way, [structuredClone(way.make())]]));
  const settings: readonly (readonly [name: string, measure: (way: Way) => number])[] = [
    ['a page in one piece, again and again', (way) => measure(way, kept.get(way) ?? [], count)],
    [
      'pages as requests make them, each once',
      (way) => {
        const batches = Math.ceil(count / BATCH);
        let us = 0;
        for (let batch = 0; batch < batches; batch += 1) us += measure(way, Array.from({ length: BATCH }, way.make), 1);
        return us / batches;
      },
    ],
  ];

  heading(`P8: a page of ${webhooks} webhooks, ${written.length.toLocaleString('en')} characters of HAL JSON`);
  print('rival  JSON.stringify of the ready-made HAL object');
  print('all    one thread, until the text is in one piece; no actions, no session');

  for (const [name, run] of settings) {
    const results = ways.map((): number[] => []);
    for (const way of ways) run(way);
    for (let round = 0; round < rounds; round += 1) {
      for (const [index, way] of ways.entries()) results[index]?.push(run(way));
    }
    heading(`${name}: ${rounds} rounds of ${count}, median (lowest–highest)`);
    const rival = results[0] ?? [];
    const rows = ways.map((way, index) => {
      const us = results[index] ?? [];
      return [way.name, spread(us, 1), spread(ratios(rival, us), 2), goals[way.name]?.toString() ?? ''];
    });
    table(['', 'µs a page', 'speed ÷ rival', 'goal'], rows);
  }
  if (sink === 0) throw new Error('Nothing was written');
});
