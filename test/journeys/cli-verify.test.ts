/** `halcyon verify`: a delivery of the real engine, kept in files, and each mistake that people make with one. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { startTestApp } from '../setup/app.ts';
import { runCommand, runProcess } from '../setup/command.ts';
import { cleanups } from '../setup/cleanups.ts';
import { startReceiver } from '../setup/receiver.ts';

const KEY = 'whsec_c2VjcmV0IGZvciB0aGUgdGVzdCBvZiB2ZXJpZnk=';

const ends = cleanups();
const app = await startTestApp();
const receiver = await startReceiver(ends);
const folder = await mkdtemp(join(tmpdir(), 'halcyon-verify-'));
ends.after(() => rm(folder, { recursive: true }));

const webhook = { name: 'w', format: 'json', url: receiver.url, event_resource: 'transaction', encryption_key: KEY };
await app.api('POST', `/stores/${app.storeId}/webhooks`, { body: webhook });
await app.api('POST', `/stores/${app.storeId}/events`, {
  token: app.platformToken,
  body: { event: 'transaction/created', resource: { id: 7, total: 1.5, note: 'ä\n' } },
});
await receiver.until(1);
const [first] = receiver.got;
assert.ok(first !== undefined);
const got = first;

async function file(name: string, content: string | Buffer): Promise<string> {
  await writeFile(join(folder, name), content);
  return join(folder, name);
}
const linesOf = (changed: Record<string, string> = {}) =>
  [
    'HTTP/1.1 200 OK',
    ...Object.entries({ ...got.headers, ...changed }).map(([name, value]) => `${name}: ${String(value)}`),
    '',
  ].join('\r\n');

type Changes = { key?: string; headers?: string; body?: string | Buffer; args?: string[]; run?: typeof runCommand };

async function verify({
  key = `${KEY}\n`,
  headers = linesOf(),
  body = got.body,
  args = [],
  run = runCommand,
}: Changes = {}) {
  const files = [await file('key', key), await file('headers', headers), await file('body', body)];
  const options = ['--key-file', '--headers', '--body'].flatMap((option, n) => [option, files[n] ?? '']);
  return run(['verify', ...options, ...args], {});
}

test('a request that the engine sent is verified and decrypted', async () => {
  const plain = await verify();
  assert.deepEqual([plain.code, plain.err], [0, '']);
  assert.match(
    plain.out,
    /^Verified: transaction\/created, \S+\n {2}Service-Webhook-Signature +matches\n {2}webhook-signature +matches\n$/,
  );
  const opened = await verify({ args: ['--decrypt'] });
  assert.deepEqual(JSON.parse(opened.out), JSON.parse(got.body.toString()));
  const { verified, signatures } = JSON.parse((await verify({ args: ['--json'] })).out) as Record<string, unknown>;
  assert.deepEqual([verified, signatures], [true, { 'Service-Webhook-Signature': true, 'webhook-signature': true }]);
});

test('control characters of a header are printed escaped, so that the terminal does not act on them', async () => {
  // Over plain http anyone on the path can write headers: no signature covers them. C0, C1, and characters that turn the direction of text.
  const event = 'a\u001b]0;b\u0007\u009b2J\u202ec';
  const plain = await verify({ headers: linesOf({ 'service-webhook-event': event }), run: runProcess });
  assert.match(plain.out, /^Verified: a\\u001b\]0;b\\u0007\\u009b2J\\u202ec, /);
  const result = await verify({ headers: linesOf({ 'service-webhook-event': event }), args: ['--json'] });
  assert.match(result.out, /\\u009b2J\\u202ec/);
  assert.equal((JSON.parse(result.out) as { event: string }).event, event);
});

const long = (ago: number) => String(Math.floor(Date.now() / 1000) - ago);
const changed = Buffer.from(got.body);
changed[10] = 0x20;

const mistakes: readonly (readonly [name: string, changes: Changes, why: RegExp])[] = [
  ['another key', { key: 'whsec_b3RoZXI=' }, /key is another/],
  ['one changed byte', { body: changed }, /key is another/],
  ['a key without its beginning', { key: KEY.replace('whsec_', '') }, /lacks the whsec_/],
  ['a line end at the end', { body: `${got.body.toString()}\n` }, /a line end at its end/],
  [
    'a body that was serialized again',
    { body: JSON.stringify(JSON.parse(got.body.toString()), null, 2) },
    /parsed and written again/,
  ],
  ['another time', { headers: linesOf({ 'webhook-timestamp': long(0) + 1 }) }, /webhook-id or webhook-timestamp/],
  ['a signature that is missing', { headers: 'webhook-id: 1' }, /header \S+ is missing/],
  ['no headers', { headers: '{}' }, /has no line such as/],
];

for (const [name, changes, why] of mistakes) {
  test(`it reports the mistake: ${name}`, async () => {
    const { code, out, err } = await verify(changes);
    assert.deepEqual([code, why.test(err), out.includes('Verified')], [1, true, false], err);
    assert.ok(!`${out}${err}`.includes(KEY.slice(6)), 'the key is not printed');
  });
}

test('an old request is distinguished from a forged one, and --max-age allows it', async (t) => {
  const sentMs = Number(got.headers['webhook-timestamp']) * 1_000;
  t.mock.timers.enable({ apis: ['Date'], now: sentMs + 301_000 });
  const old = await verify();
  assert.equal(old.code, 1);
  assert.match(old.err, / 301 seconds .*--max-age/);
  assert.match(old.out, /webhook-signature +matches/);
  assert.equal((await verify({ args: ['--max-age', '301'] })).code, 0);
});
