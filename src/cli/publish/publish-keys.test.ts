import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createKeys } from './publish-keys.ts';
import { linesOf } from './publish-run.ts';

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

async function read(bytes: Buffer, chunkBytes: number) {
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
  }
  return (await Array.fromAsync(linesOf(chunks(), { limitBytes: 8 }))).flat();
}

const text = '\uFEFFone\r\n\n  \nzwölf\n123456789\nlast';

for (const chunkBytes of [1, 2, 5, 100]) {
  test(`lines are the same for any chunk size: ${chunkBytes} bytes`, async () => {
    const lines = await read(Buffer.from(text), chunkBytes);
    assert.deepEqual(
      lines.map((line) => [line.number, 'text' in line ? line.text : 'fault']),
      [
        [1, 'one'],
        [4, 'zwölf'],
        [5, 'fault'],
        [6, 'last'],
      ],
    );
    assert.equal(lines.at(-1)?.endByte, Buffer.byteLength(text));
  });
}

test('invalid UTF-8 is a fault of its own line only', async () => {
  const lines = await read(Buffer.from([0x61, 0x0a, 0xff, 0x0a, 0x62]), 100);
  assert.deepEqual(
    lines.map((line) => 'text' in line),
    [true, false, true],
  );
});
