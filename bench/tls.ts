/**
 * P11: deliveries to https endpoints beside the bare undici loop: cold (nothing is known of anybody), warm (connections are
 * there), and after all endpoints hung up (every connection is new, every session known). `--rounds 5 --count 50000` is
 * the whole run.
 */
import { createAuthority } from '../test/setup/authority.ts';
import { bareSide, ourSide, type Side } from './setup/delivery-sides.ts';
import { bench, heading, print } from './setup/run.ts';
import { startScene } from './setup/scene.ts';
import { REPRESENTATION_BYTES } from './setup/seed.ts';
import { ratios, spread, table } from './setup/table.ts';

const GOALS = { ratio: 0.6, handshakes: 0.01 } as const;

const numbers = { rounds: 5, count: 50_000, endpoints: 500, array: 100, concurrent: 16 };

type Round = { perSecond: number; us: number; full: number; resumed: number; rssMiB: number; loopMs: number };

await bench({ numbers }, async (options, defer) => {
  const { rounds, endpoints, array, concurrent } = options;
  const requests = Math.ceil(options.count / array);
  const count = requests * array;
  const authority = createAuthority();
  defer(async () => authority.remove());
  // For the children: a worker trusts an operator's own authority in this way.
  process.env['NODE_EXTRA_CA_CERTS'] = authority.file;
  const scene = await startScene(defer, { endpoints, pair: authority.sign('IP:127.0.0.1') });
  const publisher = await scene.startEngine({ delivers: false });
  const worker = await scene.startEngine({ delivers: true });
  const settings = `${publisher.settings}; ${worker.settings}`;
  const halcyon = ourSide(scene, { publisher: publisher.engine, worker: worker.engine, settings }, () => {});
  const { side: bare } = await bareSide(defer, scene);
  const sides = [halcyon, bare];

  heading(`P11: ${endpoints} https endpoints on loopback, TLS 1.3, P-256, ${REPRESENTATION_BYTES} bytes`);
  for (const side of sides) print(`${side.name}: ${side.settings}`);
  print(`PostgreSQL: ${scene.database.settings}`);

  let from = 0;
  const measure = async (side: Side): Promise<Round> => {
    const beforeMs = await side.worker.cpuMs();
    await side.worker.vitals();
    await scene.receiver.ask('handshakes', null);
    const ms = await side.run({ requests, arrayOf: array, concurrent, from });
    from += count;
    const { full, resumed } = await scene.receiver.ask('handshakes', null);
    const { rssMiB, loopP99Ms } = await side.worker.vitals();
    const us = (((await side.worker.cpuMs()) - beforeMs) / count) * 1_000;
    return {
      perSecond: (count / ms) * 1_000,
      us,
      full: full / count,
      resumed: resumed / count,
      rssMiB,
      loopMs: loopP99Ms,
    };
  };

  const states = { cold: 1, warm: rounds, 'hung up': rounds } as const;
  for (const [state, times] of Object.entries(states)) {
    const results = new Map(sides.map((side) => [side, [] as Round[]]));
    for (let round = 0; round < times; round += 1) {
      for (const side of sides) {
        if (state === 'hung up') await scene.receiver.ask('hangUp', null);
        results.get(side)?.push(await measure(side));
      }
    }
    const of = (side: Side, pick: (round: Round) => number): number[] => results.get(side)?.map(pick) ?? [];
    const rate = (side: Side): number[] => of(side, ({ perSecond }) => perSecond);
    heading(`${state}: ${times} of ${count} deliveries, median (lowest–highest)`);
    table(
      ['', 'a second', 'Halcyon ÷ it', 'worker µs', 'full handshakes', 'resumed', 'RSS MiB', 'loop p99 ms'],
      sides.map((side) => [
        side.name,
        spread(rate(side)),
        side === halcyon ? '' : spread(ratios(rate(halcyon), rate(side)), 2),
        spread(of(side, ({ us }) => us)),
        spread(
          of(side, ({ full }) => full),
          4,
        ),
        spread(
          of(side, ({ resumed }) => resumed),
          4,
        ),
        spread(of(side, ({ rssMiB }) => rssMiB)),
        spread(
          of(side, ({ loopMs }) => loopMs),
          1,
        ),
      ]),
    );
  }
  print(
    `\nHandshakes are a delivery. Goals: ${GOALS.ratio} of the bare loop, warm less than ${GOALS.handshakes} in full.`,
  );
});
