import assert from 'node:assert/strict';
import { test } from 'node:test';
import { linesOf } from './publish-run.ts';

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
