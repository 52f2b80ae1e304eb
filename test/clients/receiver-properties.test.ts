/** packages/receiver beside the engine's own signer and encryptor: it accepts exactly the deliveries of the engine. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { verifyDelivery, WebhookError, type Arrival } from '#receiver';
import { KEY, NOW, OTHER, sent, TYPE, type Sent } from './receiver/signed-delivery.ts';
import { anyText } from '../setup/any-text.ts';

const key = fc.oneof(
  fc.uint8Array({ minLength: 1, maxLength: 64 }).map((bytes) => `whsec_${Buffer.from(bytes).toString('base64')}`),
  anyText({ minLength: 1, maxLength: 100 }),
  // Base64 that is complete, cut off or invalid.
  fc.stringMatching(/^[A-Za-z0-9+/=_ -]{0,12}$/).map((text) => `whsec_${text}`),
);
const body = fc.uint8Array({ maxLength: 2_000 });
const headerPrefix = fc.stringMatching(/^[A-Za-z][A-Za-z0-9-]{0,20}$/);

const now = () => NOW;
const verify = (delivery: Sent, keys: Arrival['keys'], prefix = 'Service') =>
  verifyDelivery({ ...delivery, keys, headerPrefix: prefix, now });

/** HMAC pads a short key with zeros, so that two texts may be one key. */
const isOneKey = (one: string, two: string): boolean =>
  createHmac('sha256', one).update('').digest('hex') === createHmac('sha256', two).update('').digest('hex');

const hasCode =
  (...codes: string[]) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof WebhookError, String(error));
    assert.ok(codes.includes(error.code), `${error.code}: ${error.message}`);
    return true;
  };

test('either key of a rotation verifies any delivery of the engine, encrypted or not, and returns the same bytes', async () => {
  const options = fc.record({ body, key, next: fc.option(key), headerPrefix, isEncrypted: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(options, key, async (made, unrelated) => {
      const delivery = sent(made);
      // Encrypted with the old key alone.
      const enough = made.next !== null && !made.isEncrypted ? [[made.key], [made.next]] : [[made.key]];
      for (const keys of [...enough, [unrelated, undefined, '', made.key]]) {
        const { json: _json, body: got, ...verified } = await verify(delivery, keys, made.headerPrefix);
        assert.deepEqual(Buffer.from(got), Buffer.from(made.body));
        assert.deepEqual(verified, {
          id: delivery.headers['webhook-id'],
          event: 'transaction/created',
          timestamp: NOW,
          storeId: 1001,
          storeDomain: 'store.example.com',
          attempt: 2,
          resourceVersion: 4,
          isRefeed: false,
          isTest: false,
          contentType: TYPE,
        });
      }
    }),
  );
});

test('a body with a changed, added or removed byte is rejected', async () => {
  const change = fc.record({
    body,
    key,
    isEncrypted: fc.boolean(),
    at: fc.nat(),
    by: fc.integer({ min: 1, max: 255 }),
  });
  await fc.assert(
    fc.asyncProperty(change, async ({ at, by, ...made }) => {
      const delivery = sent(made);
      const place = at % Math.max(delivery.body.length, 1);
      const changed = delivery.body.map((byte, index) => (index === place ? byte ^ by : byte));
      const others = [Buffer.concat([delivery.body, Buffer.of(by)])];
      if (delivery.body.length > 0) others.push(Buffer.from(changed), Buffer.from(delivery.body.subarray(0, -1)));
      for (const other of others)
        await assert.rejects(verify({ ...delivery, body: other }, [made.key]), hasCode('bad_signature'));
    }),
  );
});

test('a changed character of a signature, of the id or of the time is rejected', async () => {
  const names = ['webhook-id', 'webhook-timestamp', 'webhook-signature', 'service-webhook-signature'];
  const character = fc.string({ minLength: 1, maxLength: 1 });
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...names), fc.nat(), character, async (name, at, other) => {
      const delivery = sent();
      const text = delivery.headers[name] ?? '';
      const place = at % text.length;
      fc.pre(text[place] !== other);
      const headers = { ...delivery.headers, [name]: text.slice(0, place) + other + text.slice(place + 1) };
      await assert.rejects(verify({ ...delivery, headers }, [OTHER, KEY]), hasCode('bad_signature'));
    }),
    { numRuns: 500 },
  );
});

test('another key verifies nothing, and no error contains a key or the right signature', async () => {
  await fc.assert(
    fc.asyncProperty(key, key, async (one, two) => {
      fc.pre(!isOneKey(one, two));
      const delivery = sent({ key: one });
      await assert.rejects(verify(delivery, [two]), (error: WebhookError) => {
        for (const secret of [two, delivery.headers['service-webhook-signature']])
          assert.ok(secret === undefined || secret.length < 8 || !error.message.includes(secret));
        return hasCode('bad_signature')(error);
      });
    }),
  );
});

test('the age counts to the second, in both directions, and only after the signature is verified', async () => {
  const age = fc.integer({ min: -1_000_000, max: 1_000_000 });
  await fc.assert(
    fc.asyncProperty(age, fc.nat({ max: 100_000 }), async (ageSeconds, toleranceSeconds) => {
      const delivery = sent({ now: new Date(NOW.getTime() - ageSeconds * 1_000) });
      const found = verifyDelivery({ ...delivery, keys: [KEY], toleranceSeconds, now });
      if (Math.abs(ageSeconds) <= toleranceSeconds) await found;
      else await assert.rejects(found, hasCode(ageSeconds < 0 ? 'too_new' : 'too_old'));
      await assert.rejects(verify(delivery, [OTHER]), hasCode('bad_signature'));
    }),
  );
});
