import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createKeys } from './keys.ts';

const keysOf = (events: readonly unknown[], secret = 'secret'): string[] => events.map(createKeys(secret));

test('the same event again in one input has another key, and the same keys in the next run', () => {
  const keys = keysOf([{ id: 1 }, { id: 2 }, { id: 1 }, { id: 1 }]);
  assert.equal(new Set(keys).size, 4);
  assert.deepEqual(keysOf([{ id: 1 }, { id: 2 }, { id: 1 }, { id: 1 }]), keys);
});

test('a line that is put in or taken out changes the keys of no other', () => {
  const [first, , third] = keysOf([{ id: 1 }, { id: 2 }, { id: 3 }]);
  assert.deepEqual(keysOf([{ id: 1 }, { id: 3 }]), [first, third]);
});

test('whoever does not have the secret cannot find out by trying what a key was made of', () => {
  const [mine] = keysOf([{ id: 1 }], 'mine');
  const [yours] = keysOf([{ id: 1 }], 'your');
  assert.notEqual(mine?.split('.')[0], yours?.split('.')[0]);
});

const MANY = 60_000;
const GROWTH_MAX_BYTES = 2 * 1024 * 1024;

test('lines that all repeat take no memory', () => {
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
