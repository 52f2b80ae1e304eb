import assert from 'node:assert/strict';
import { test } from 'node:test';
import { guessableFault } from './guessable.ts';

const email = 'ada.lovelace@example.com';

const common: readonly (readonly [password: string, reason: RegExp])[] = [
  ['password123', /most common/],
  ['Password123!', /differs little/],
  ['P@ssw0rd2024', /differs little/],
  ['letmein123', /differs little/],
  ['1q2w3e4r5t', /most common/],
  ['1234567890', /most common/],
  ['abcdefghij', /sequence/],
  ['asdfghjkl;', /row of keys/],
  ['aaaaaaaaaaaa', /repeats/],
  ['passwordpassword', /repeats/],
  ['halcyon2026', /name of this service/],
  ['ada.lovelace1', /e-mail/],
  ['Summer2026!', /differs little/],
];
for (const [password, reason] of common) {
  test(`easy to guess: ${password}`, async () => {
    const fault = await guessableFault({ email, password });
    assert.deepEqual([fault?.code, fault?.field], ['too_common', 'password']);
    assert.match(fault?.message ?? '', reason);
  });
}

for (const password of ['correct horse battery', 'a long password', 'Kj7#mQ2xVt', 'žluťoučký kůň']) {
  test(`not easy to guess: ${password}`, async () =>
    assert.equal(await guessableFault({ email, password }), undefined));
}

async function millisecondsOf(password: string): Promise<number> {
  const before = process.threadCpuUsage();
  for (let i = 0; i < 10; i += 1) await guessableFault({ email, password });
  return process.threadCpuUsage(before).user / 10_000;
}

test('a thousand characters take no more processor time than forty', async () => {
  for (const unit of ['1', 'p4$$w0rd', '19/9-']) {
    await millisecondsOf(unit.repeat(40));
    const [short, long] = [
      await millisecondsOf(unit.repeat(40).slice(0, 40)),
      await millisecondsOf(unit.repeat(1_000).slice(0, 1_000)),
    ];
    assert.ok(long < 4 * short + 5, `${unit}: ${long} ms, and ${short} ms for forty`);
  }
});
