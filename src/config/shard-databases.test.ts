/** `SHARD_DATABASES`: every shard has one database, and no message contains a password. */
import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { readConfig } from './config.ts';
import { ConfigError } from '#core/config-error.ts';
import { shardDatabases } from './settings/kind.ts';

const NAME = 'SHARD_DATABASES';
const read = (text: string) => shardDatabases(text, NAME);
const A = 'postgres://halcyon:secret-a@one.example.com/halcyon';
const B = 'postgresql://halcyon:secret-b@two.example.com:6432/halcyon?sslmode=require';

test('ranges are read in any order, over any white space', () => {
  assert.deepEqual(read(`\n 128-255=${B}\t0-126=${A}  127=${B} `), [
    { first: 0, last: 126, url: A },
    { first: 127, last: 127, url: B },
    { first: 128, last: 255, url: B },
  ]);
  assert.equal(read(' \n'), undefined);
});

test('a shard without a database, with two, or out of range is refused with the shards and without addresses', () => {
  const refusals: [string, RegExp][] = [
    [`0-127=${A}`, /no database for the shards 128-255/],
    [`1-255=${A}`, /no database for the shards 0:/],
    [`0-99=${A} 101-255=${B}`, /no database for the shards 100:/],
    [`0-127=${A} 127-255=${B}`, /two databases for the shards 127:/],
    [`0-255=${A} 64-127=${B}`, /two databases for the shards 64-127:/],
    [`0-255=${A} 0-255=${A}`, /two databases for the shards 0-255:/],
    [`0-256=${A}`, /"0-256=…"/],
    [`127-0=${A} 128-255=${B}`, /"127-0=…"/],
    [`0-99=${A},100-255=${B}`, /a comma between two ranges/],
    [`0-255:${A}`, /"…"/],
    ['postgres://halcyon:secret=a@one/halcyon', /"…"/],
    [A, /"…"/],
    [`0-255=http://halcyon:secret-a@one`, /"0-255=…"/],
    [`0-255=postgres://halcyon:secret-a@one:port/halcyon`, /"0-255=…"/],
    [`0-255=`, /"0-255=…"/],
  ];
  for (const [text, message] of refusals)
    assert.throws(
      () => read(text),
      (error: unknown) => {
        assert.ok(error instanceof ConfigError, text);
        assert.match(error.message, message);
        assert.match(error.message, /^SHARD_DATABASES has /);
        assert.doesNotMatch(error.message, /secret|example\.com/);
        return true;
      },
    );
});

test('any division of the 256 shards is read, and none with one range less', () => {
  const cuts = fc.uniqueArray(fc.integer({ min: 1, max: 255 }), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(cuts, fc.nat(), (some, at) => {
      const starts = [0, ...some.toSorted((a, b) => a - b)];
      const ranges = starts.map((first, index) => ({ first, last: (starts[index + 1] ?? 256) - 1, url: A }));
      const textOf = (of: typeof ranges) => of.map(({ first, last, url }) => `${first}-${last}=${url}`).join(' ');
      assert.deepEqual(read(textOf(ranges.toReversed())), ranges);
      assert.throws(() => read(textOf(ranges.toSpliced(at % ranges.length, 1))), ConfigError);
    }),
  );
});

test('several databases need a home database', () => {
  const env = { [NAME]: `0-255=${A}` };
  assert.throws(() => readConfig(env, tmpdir()), /Set DATABASE_URL beside SHARD_DATABASES/);
  const set = readConfig({ ...env, DATABASE_URL: A, HALCYON_SECRET_KEY: 'ab'.repeat(32) }, tmpdir());
  assert.deepEqual(set.database.shards, [{ first: 0, last: 255, url: A }]);
  assert.equal(readConfig({}, tmpdir()).database.shards, undefined);
});
