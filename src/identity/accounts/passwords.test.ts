import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '#core/problem.ts';
import { createPasswords, PASSWORD_COST as cost } from './passwords.ts';

const password = 'correct horse battery';

test('a password is stored as argon2id with the parameters in the string, salted each time', async () => {
  const passwords = createPasswords({ hashesAtOnce: 2, cost });
  const [one, two] = await Promise.all([passwords.hash(password), passwords.hash(password)]);
  assert.match(one, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
  assert.notEqual(one, two);
  assert.equal(await passwords.verify(password, one), true);
  assert.equal(await passwords.verify(`${password} `, one), false);
  assert.equal(await passwords.verify(password, undefined), false);
});

test('a hash from elsewhere with other parameters is verified by its own', async () => {
  // Made by Python's argon2-cffi 25.1.0: PasswordHasher(time_cost=3, memory_cost=4096, parallelism=1).
  const stored = '$argon2id$v=19$m=4096,t=3,p=1$8vC3Qt141ERz30jDUjI3IQ$r6JwR/EKIvBHzU4uIt40UTeX0zbnpXsu1EG/jtc2wDA';
  const passwords = createPasswords({ hashesAtOnce: 1, cost });
  assert.equal(await passwords.verify(password, stored), true);
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
  const outcomes = await Promise.allSettled([1, 2, 3].map(() => passwords.verify(password, undefined)));
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected'],
  );
  const [, , refused] = outcomes;
  assert.ok(refused?.status === 'rejected' && refused.reason instanceof Problem);
  assert.equal(refused.reason.status, 503);
  assert.equal(await passwords.verify(password, undefined), false, 'the slots are free again');
});
