/** docs/verify: the programs in six languages, each run with deliveries of the engine, and with forged ones. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { promisify } from 'node:util';
import { shardOf } from '#core/ids.ts';
import { cleanups } from '../setup/cleanups.ts';
import { KEY, startEngine } from '../setup/engine.ts';
import { resolverOf, startNameServer } from '../setup/name-server.ts';
import { startReceiver, type Got } from '../setup/receiver.ts';
import { isMissing, type Program } from './programs.ts';

const run = promisify(execFile);
const PROGRAMS = join(import.meta.dirname, '../../docs/verify');
const NEXT = 'a key of one’s own';
const OTHER = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;
/** Their base64 is empty, cut off, without padding, with a stray bit, of the other alphabet, or with a blank in it. */
const NOT_DECODED = ['whsec_', 'whsec_A', 'whsec_QUI', 'whsec_QUJ=', 'whsec_-_-_', 'whsec_QUFB QUFB', 'whsec_é==='];
const AGE_MS = 10 * 60_000;

const ends = cleanups();
const folder = await mkdtemp(join(tmpdir(), 'halcyon-verify-'));
ends.after(() => rm(folder, { recursive: true, force: true }));

type Language = Program & {
  name: string;
  /** The command to start it. */
  program: readonly string[];
  compile?: readonly string[];
};

const languages: readonly Language[] = [
  {
    name: 'javascript',
    program: [process.execPath, join(PROGRAMS, 'javascript/verify.mjs')],
    version: [process.execPath, '--version'],
    debianPackages: 'nodejs',
  },
  {
    name: 'python',
    program: ['/usr/bin/python3', join(PROGRAMS, 'python/verify.py')],
    version: ['/usr/bin/python3', '--version'],
    debianPackages: 'python3',
  },
  {
    name: 'php',
    program: ['php', join(PROGRAMS, 'php/verify.php')],
    version: ['php', '--version'],
    debianPackages: 'php-cli',
  },
  {
    name: 'ruby',
    program: ['ruby', join(PROGRAMS, 'ruby/verify.rb')],
    version: ['ruby', '--version'],
    debianPackages: 'ruby',
  },
  {
    name: 'go',
    program: [join(folder, 'verify')],
    version: ['go', 'version'],
    debianPackages: 'golang-go',
    compile: ['go', 'build', '-o', join(folder, 'verify'), join(PROGRAMS, 'go/verify.go')],
  },
  {
    name: 'java',
    program: ['java', '-cp', folder, 'Verify'],
    version: ['javac', '-version'],
    debianPackages: 'default-jdk-headless',
    compile: ['javac', '-d', folder, join(PROGRAMS, 'java/Verify.java')],
  },
];

/** Deliveries from before a rotation, during one, encrypted, ten minutes old, and signed with the keys of `NOT_DECODED`. */
async function deliveries(): Promise<
  Record<'plain' | 'rotating' | 'encrypted' | 'old', Got> & { notDecoded: readonly Got[] }
> {
  const names = await startNameServer();
  names.say(() => ({ addresses: ['127.0.0.1'] }));
  const [engine, receiver] = [await startEngine({ resolve: resolverOf(names) }), await startReceiver()];
  const webhookId = await engine.addWebhook(receiver.url);
  const worker = await engine.startWorker();
  const send = async (): Promise<Got> => {
    const count = receiver.got.length + 1;
    await engine.publish([count], worker);
    await receiver.until(count);
    return receiver.got[count - 1] ?? assert.fail();
  };
  const seal = (key: string) => engine.sealer.seal(key, `webhook:${webhookId}`);
  const change = async (url: string, next: string | null, key = KEY) => {
    await engine.sql`
      update webhook set url = ${url}, encryption_key = ${seal(key)},
        next_encryption_key = ${next === null ? null : seal(next)},
        rotation_ends_at = ${next === null ? null : new Date(engine.clock.now().getTime() + 3_600_000)}
      where id = ${webhookId}`;
    worker.webhookChanged({ shard: shardOf(webhookId), webhookId });
  };
  const plain = await send();
  await change(receiver.url, NEXT);
  const rotating = await send();
  await change(receiver.url.replace('127.0.0.1', 'shop.example.com'), null);
  const encrypted = await send();
  assert.equal(encrypted.headers['content-type'], 'application/jose');
  const notDecoded: Got[] = [];
  for (const key of NOT_DECODED) {
    await change(receiver.url, null, key);
    notDecoded.push(await send());
  }
  await change(receiver.url, null);
  engine.clock.set(-AGE_MS);
  return { plain, rotating, encrypted, notDecoded, old: await send() };
}

const { plain, rotating, encrypted, notDecoded, old } = await deliveries();

const having = (got: Got, headers: Record<string, string | undefined>): Got => ({
  ...got,
  headers: { ...got.headers, ...headers },
});
const SIGNATURE = 'service-webhook-signature';

type Case = readonly [what: string, got: Got, keys: readonly string[], answer: RegExp];
const cases: readonly Case[] = [
  ['a delivery', plain, [KEY], /^verified msg_/],
  ['an encrypted delivery', encrypted, [KEY], /^verified msg_/],
  ['during a rotation the old key', rotating, [KEY], /^verified msg_/],
  ['during a rotation the new key', rotating, [NEXT], /^verified msg_/],
  ['both keys, after the rotation too', plain, [NEXT, KEY], /^verified msg_/],
  ['another key', plain, [OTHER], /^refused: webhook-signature/],
  [
    'a changed body',
    { ...plain, body: Buffer.from(plain.body.toString().replace('1', '2')) },
    [KEY],
    /^refused: webhook-signature/,
  ],
  ['another id', having(plain, { 'webhook-id': 'msg_1_1_1' }), [KEY], /^refused: webhook-signature/],
  ['no Standard Webhooks signature', having(plain, { 'webhook-signature': undefined }), [KEY], /^refused: webhook-sig/],
  [
    'the hex signature of another body',
    having(plain, { [SIGNATURE]: String(old.headers[SIGNATURE]) }),
    [KEY],
    /^refused: Ser/,
  ],
  ['no hex signature', having(plain, { [SIGNATURE]: undefined }), [KEY], /^refused: Service-Webhook-Signature/],
  ['a delivery of ten minutes ago', old, [KEY], /^refused: too old/],
  ...notDecoded.map((got, index): Case => {
    const key = NOT_DECODED[index] ?? assert.fail();
    return [`the key "${key}", whose base64 is not canonical`, got, [key], /^verified msg_/];
  }),
];

/** Writes the files of a case: keys a line each, headers as `name: value`, the body as it arrived. */
async function filesOf([, got, keys]: Case, index: number): Promise<string[]> {
  const place = join(folder, `case-${index}`);
  await mkdir(place, { recursive: true });
  const headers = Object.entries(got.headers).flatMap(([name, value]) =>
    value === undefined ? [] : `${name}: ${String(value)}\n`,
  );
  const files = { 'keys.txt': `${keys.join('\n')}\n`, 'headers.txt': headers.join(''), 'body.bin': got.body };
  for (const [name, content] of Object.entries(files)) await writeFile(join(place, name), content);
  return Object.keys(files).map((name) => join(place, name));
}
const files = await Promise.all(cases.map(filesOf));

type Ended = { code: number; said: string };
const start = ([command = '', ...args]: readonly string[]): Promise<Ended> =>
  run(command, args, { timeout: 60_000 }).then(
    ({ stdout }) => ({ code: 0, said: stdout }),
    (error: { code: number | string; stderr?: string }) => ({ code: Number(error.code), said: String(error.stderr) }),
  );

suite('docs/verify', () => {
  for (const language of languages) {
    const { name, program, compile } = language;
    test(`the program in ${name} accepts deliveries and rejects all others`, async (t) => {
      if (await isMissing(t, language)) return;
      if (compile !== undefined) assert.deepEqual(await start(compile), { code: 0, said: '' });
      for (const [index, [what, , , answer]] of cases.entries()) {
        const { code, said } = await start([...program, ...(files[index] ?? [])]);
        assert.match(said, answer, `${name}: ${what}`);
        assert.equal(code, said.startsWith('verified') ? 0 : 1, `${name}: ${what}`);
      }
    });
  }
});
