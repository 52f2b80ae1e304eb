import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createKeys } from './publish-keys.ts';

const keysOf = (events: readonly unknown[], secret = 'secret'): string[] => events.map(createKeys(secret));

test('a repeated event in one input gets another key, and the next run gives the same keys', () => {
  const keys = keysOf([{ id: 1 }, { id: 2 }, { id: 1 }, { id: 1 }]);
  assert.equal(new Set(keys).size, 4);
  assert.deepEqual(keysOf([{ id: 1 }, { id: 2 }, { id: 1 }, { id: 1 }]), keys);
});

test('inserting or removing a line does not change the keys of other lines', () => {
  const [first, , third] = keysOf([{ id: 1 }, { id: 2 }, { id: 3 }]);
  assert.deepEqual(keysOf([{ id: 1 }, { id: 3 }]), [first, third]);
});

test('without the secret, the content behind a key cannot be found by guessing', () => {
  const [mine] = keysOf([{ id: 1 }], 'mine');
  const [yours] = keysOf([{ id: 1 }], 'your');
  assert.notEqual(mine?.split('.')[0], yours?.split('.')[0]);
});

const MANY = 60_000;
const GROWTH_MAX_BYTES = 2 * 1024 * 1024;

test('an input of identical lines needs constant memory', () => {
  setFlagsFromString('--expose-gc');
  const sweep = runInNewContext('gc') as () => void;
  const heldBytes = (): number => {
    sweep();
    return process.memoryUsage().heapUsed;
  };
  const keyOf = createKeys('secret');
  const readAll = (): void => {
    for (let id = 0; id < MANY; id += 1) keyOf({ id });
  };
  readAll();
  const before = heldBytes();
  readAll();
  const grown = heldBytes() - before;
  assert.ok(grown < GROWTH_MAX_BYTES, `${grown} bytes more`);
  assert.match(keyOf({ id: 1 }), /\.2$/);
});
