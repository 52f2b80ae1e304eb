/** A key replaces another: independent packages verify and decrypt each delivery meanwhile. */
import assert from 'node:assert/strict';
import { createHash, createHmac } from 'node:crypto';
import { test } from 'node:test';
import { compactDecrypt } from 'jose';
import { Webhook as Standard } from 'standardwebhooks';
import { Webhook as Svix } from 'svix';
import { shardOf } from '#core/ids.ts';
import type { Worker } from '#delivery/worker.ts';
import { KEY, startEngine, type Engine } from '../setup/engine.ts';
import { resolverOf, startNameServer } from '../setup/name-server.ts';
import { startReceiver, type Got, type Receiver } from '../setup/receiver.ts';

const NEXT = `whsec_${Buffer.alloc(32, 3).toString('base64')}`;
/** Short, since receivers reject timestamps that are five minutes off. */
const OVERLAP_MS = 60_000;

/** Publishes one event before, during and after a rotation, and returns the requests received for each. */
async function rotate(engine: Engine, receiver: Receiver, url: string): Promise<[Got, Got, Got]> {
  const webhookId = await engine.addWebhook(url);
  const worker: Worker = await engine.startWorker();
  const send = async (id: number): Promise<Got> => {
    await engine.publish([id], worker);
    await receiver.until(id);
    const got = receiver.got[id - 1];
    assert.ok(got !== undefined);
    return got;
  };
  const before = await send(1);
  await engine.sql`
    update webhook set next_encryption_key = ${engine.sealer.seal(NEXT, `webhook:${webhookId}`)},
      rotation_ends_at = ${new Date(engine.clock.now().getTime() + OVERLAP_MS)}
    where id = ${webhookId}`;
  worker.webhookChanged({ shard: shardOf(webhookId), webhookId });
  const during = await send(2);
  // The end of the rotation sends no notification to the worker.
  engine.clock.advance(OVERLAP_MS);
  return [before, during, await send(3)];
}

const hexOf = (key: string, { body }: Got): string => createHmac('sha256', key).update(body).digest('hex');

/** Verifies by both packages; the body may be other than JSON. */
function isVerified(key: string, { headers, body }: Got): boolean {
  const sent = headers as Record<string, string>;
  const answers = [
    () => new Standard(key).verify(body.toString(), sent, { jsonParse: false }),
    () => new Svix(key).verify(body.toString(), sent),
  ].map((verify) => {
    try {
      verify();
      return true;
    } catch {
      return false;
    }
  });
  assert.equal(answers[0], answers[1], 'the packages do not agree');
  return answers[0] === true;
}

const signaturesOf = (got: Got) => ({
  isOld: isVerified(KEY, got),
  isNew: isVerified(NEXT, got),
  hex: got.headers['service-webhook-signature'],
  nextHex: got.headers['service-webhook-signature-next'],
});

test('deliveries before, during and after a rotation are verified by standardwebhooks, svix and a plain HMAC', async () => {
  const receiver = await startReceiver();
  const [before, during, after] = await rotate(await startEngine(), receiver, receiver.url);
  assert.deepEqual([before, during, after].map(signaturesOf), [
    { isOld: true, isNew: false, hex: hexOf(KEY, before), nextHex: undefined },
    { isOld: true, isNew: true, hex: hexOf(KEY, during), nextHex: hexOf(NEXT, during) },
    { isOld: false, isNew: true, hex: hexOf(NEXT, after), nextHex: undefined },
  ]);
  assert.equal(during.headers['content-type'], 'application/hal+json');
});

test('over plain http deliveries are encrypted: jose decrypts them with the old key until the rotation ends, then with the new', async () => {
  const server = await startNameServer();
  // The name resolves to loopback, but could resolve elsewhere later.
  server.say(() => ({ addresses: ['127.0.0.1'] }));
  const receiver = await startReceiver();
  const engine = await startEngine({ resolve: resolverOf(server) });
  const all = await rotate(engine, receiver, receiver.url.replace('127.0.0.1', 'shop.example.com'));
  const kids: unknown[] = [];
  for (const [index, got] of all.entries()) {
    assert.equal(got.headers['content-type'], 'application/jose');
    assert.doesNotMatch(got.body.toString(), /Brush|transaction/);
    const key = createHash('sha256')
      .update(index < 2 ? KEY : NEXT)
      .digest();
    const { plaintext, protectedHeader } = await compactDecrypt(got.body, key);
    assert.equal(protectedHeader.cty, 'hal+json');
    kids.push(protectedHeader.kid);
    const representation = JSON.parse(Buffer.from(plaintext).toString()) as { id: number; _links: object };
    assert.equal(representation.id, index + 1);
    assert.ok(representation._links);
  }
  assert.equal(kids[0], kids[1]);
  assert.notEqual(kids[1], kids[2]);
  // Over the bytes that were sent.
  assert.deepEqual(
    all.map((got) => got.headers['service-webhook-signature']),
    all.map((got, index) => hexOf(index < 2 ? KEY : NEXT, got)),
  );
  assert.deepEqual(
    all.map((got) => [isVerified(KEY, got), isVerified(NEXT, got)]),
    [
      [true, false],
      [true, true],
      [false, true],
    ],
  );
});
