/** Every line of sabotage in this folder is found by the test that it names: README.md says how to add one. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { readPatch, SabotageError } from './patch.ts';
import { copyOf, proveSabotage, type Copy, type Witnesses } from './sabotage.ts';

const ROOT = join(import.meta.dirname, '../..');
const patches = (await readdir(import.meta.dirname)).filter((name) => name.endsWith('.patch')).toSorted();

test('there is something to prove', () => assert.notEqual(patches.length, 0));

const copies: Copy[] = [];
const free: Copy[] = [];
const witnesses: Witnesses = new Map();
after(() => Promise.all(copies.map((copy) => copy.remove())));

/** A copy that nobody else has: as many are made as are used at once. */
const inCopy = async <T>(work: (copy: Copy) => Promise<T>): Promise<T> => {
  let copy = free.pop();
  if (copy === undefined) {
    copy = await copyOf(ROOT);
    copies.push(copy);
  }
  try {
    return await work(copy);
  } finally {
    free.push(copy);
  }
};

/** Each is a process with databases of its own, which waits for these a quarter of its time or more: so one above the cores. */
suite('sabotage', { concurrency: availableParallelism() + 1 }, () => {
  for (const name of patches) {
    test(`${name} turns its test red`, async (t) => {
      const text = await readFile(join(import.meta.dirname, name), 'utf8');
      const proof = await inCopy((copy) => proveSabotage(copy, text, witnesses));
      assert.notEqual(proof.guards, '');
      t.diagnostic(`red as it must be: ${proof.testFile} > ${proof.testName}`);
      t.diagnostic(`guards: ${proof.guards}`);
    });
  }
});

const onLine = (before: string, instead: string): string =>
  [
    '# turns red: src/delivery/message/sign.test.ts > a webhook-id differs by event, by webhook and by the random part',
    '# guards: nothing, it is the runner that is tried here',
    'diff --git a/src/delivery/message/sign.ts b/src/delivery/message/sign.ts',
    '--- a/src/delivery/message/sign.ts',
    '+++ b/src/delivery/message/sign.ts',
    '@@ -1,2 +1,2 @@',
    `-${before}`,
    `+${instead}`,
    " import { createHmac } from 'node:crypto';",
    '',
  ].join('\n');
const FIRST_LINE = '/** Signatures over the very bytes that are sent. */';

const refused: readonly (readonly [name: string, text: string, message: RegExp])[] = [
  ['that changes nothing', onLine(FIRST_LINE, '/** Signatures. */'), /stays green/],
  ['that cannot be parsed', onLine(FIRST_LINE, 'const = 1;'), /was to be "a webhook-id.*alone and was "src/],
  ['that stops every test', onLine(FIRST_LINE, 'throw new Error("stop");'), /alone and was "src/],
  ['that no longer applies', onLine('/** Another line. */', '/** Signatures. */'), /no longer applies/],
  ['whose test is not there', onLine(FIRST_LINE, '').replace('random part', 'moon'), /alone and was/],
];

for (const [name, text, message] of refused) {
  test(`a sabotage ${name} is refused`, async () => {
    await assert.rejects(
      inCopy((copy) => proveSabotage(copy, text, witnesses)),
      (error) => {
        assert.ok(error instanceof SabotageError, String(error));
        assert.match(error.message, message);
        return true;
      },
    );
  });
}

test('what is known of a test as things stand counts for every line that names it', async () => {
  const text = onLine(FIRST_LINE, '/** Signatures. */');
  const { testFile, testName: name } = readPatch(text);
  const red: Witnesses = new Map([
    [`${testFile} > ${name}`, Promise.resolve([{ name, nesting: 0, outcome: 'failed' }])],
  ]);
  await assert.rejects(
    inCopy((copy) => proveSabotage(copy, text, red)),
    /failed without any sabotage/,
  );
});
