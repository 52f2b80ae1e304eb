import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '#core/problem.ts';
import { LOW_COST as cost } from '../../../test/setup/passwords.ts';
import { createPasswords, guessableFault, PASSWORD_COST } from './users.ts';

const CHOSEN = 'correct horse battery';

test('a password is stored as argon2id with the parameters in the string, salted each time', async () => {
  const passwords = createPasswords({ hashesAtOnce: 2, cost: PASSWORD_COST });
  const [one, two] = await Promise.all([passwords.hash(CHOSEN), passwords.hash(CHOSEN)]);
  assert.match(one, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
  assert.notEqual(one, two);
  assert.equal(await passwords.verify(CHOSEN, one), true);
  assert.equal(await passwords.verify(`${CHOSEN} `, one), false);
  assert.equal(await passwords.verify(CHOSEN, undefined), false);
});

test('a hash from elsewhere with other parameters is verified by its own', async () => {
  // Made by Python's argon2-cffi 25.1.0: PasswordHasher(time_cost=3, memory_cost=4096, parallelism=1).
  const stored = '$argon2id$v=19$m=4096,t=3,p=1$8vC3Qt141ERz30jDUjI3IQ$r6JwR/EKIvBHzU4uIt40UTeX0zbnpXsu1EG/jtc2wDA';
  const passwords = createPasswords({ hashesAtOnce: 1, cost });
  assert.equal(await passwords.verify(CHOSEN, stored), true);
  assert.equal(await passwords.verify('correct horse', stored), false);
});

test('the same text in another Unicode normalization is the same password', async () => {
  const passwords = createPasswords({ hashesAtOnce: 1, cost });
  assert.equal(await passwords.verify('cafe\u0301 au lait', await passwords.hash('caf\u00e9 au lait')), true);
});

test('a text longer than any password is wrong, at no extra cost', async () => {
  const passwords = createPasswords({ hashesAtOnce: 1, cost });
  // Normalizing these takes seconds, in which no other request is answered.
  const endless = '\u0301'.repeat(40_000) + '\u0323'.repeat(40_000);
  const before = process.cpuUsage();
  assert.equal(await passwords.verify(endless, undefined), false);
  assert.equal(await passwords.verify(endless, await passwords.hash('')), false);
  const { user } = process.cpuUsage(before);
  assert.ok(user < 1_000_000, `${user} µs`);
});

test('the longest password may consist of any characters', async () => {
  const passwords = createPasswords({ hashesAtOnce: 1, cost });
  const longest = '\u0301'.repeat(500) + '\u0323'.repeat(498) + '🐎🐎';
  const before = process.cpuUsage();
  assert.equal(await passwords.verify(longest, await passwords.hash(longest)), true);
  const { user } = process.cpuUsage(before);
  assert.ok(user < 500_000, `${user} µs`);
});

test('a sign-in beyond the queue limit is refused with the request to retry', async () => {
  const passwords = createPasswords({ hashesAtOnce: 1, hashesWaiting: 1, cost });
  const outcomes = await Promise.allSettled([1, 2, 3].map(() => passwords.verify(CHOSEN, undefined)));
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected'],
  );
  const [, , refused] = outcomes;
  assert.ok(refused?.status === 'rejected' && refused.reason instanceof Problem);
  assert.equal(refused.reason.status, 503);
  assert.equal(await passwords.verify(CHOSEN, undefined), false, 'the slots are free again');
});

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
  for (let i = 0; i < 5; i += 1) await guessableFault({ email, password });
  return process.threadCpuUsage(before).user / 5_000;
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
