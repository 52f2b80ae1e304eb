/** The results of `halcyon verify` for each signature agree with the engine that signs and the package that verifies. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { verifyDelivery, WebhookError } from '#receiver';
import { matchesOf } from '../../src/cli/verify.ts';
import { NOW, sent, type Sent } from './receiver/signed-delivery.ts';
import { anyText } from '../setup/any-text.ts';

const text = anyText({ maxLength: 60 });
const base64 = fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('base64'));
/** Also invalid keys, which a webhook cannot have now: older rows may have them, and a user may mistype one. */
const key = fc.oneof(
  text.filter((any) => any !== ''),
  fc.oneof(text, base64, fc.stringMatching(/^[A-Za-z0-9+/_=-]{0,40}$/)).map((any) => `whsec_${any}`),
);
const deliveries = fc.record({
  key,
  next: fc.option(key),
  body: fc.uint8Array({ maxLength: 500 }),
  headerPrefix: fc.constantFrom('Service', 'X-Shop'),
});

const saysOf = ({ headers, body }: Sent, keys: readonly string[], headerPrefix: string) =>
  matchesOf({ headers, body: Buffer.from(body), keys, headerPrefix });

/** Undefined if it has no result, because it cannot use the key. */
async function isVerified(delivery: Sent, one: string, headerPrefix: string): Promise<boolean | undefined> {
  try {
    await verifyDelivery({ ...delivery, keys: [one], headerPrefix, now: () => NOW });
    return true;
  } catch (error) {
    assert.ok(error instanceof WebhookError, String(error));
    return error.code === 'no_key' ? undefined : false;
  }
}

test('each signature of the engine matches, for any key, and the package agrees', async () => {
  await fc.assert(
    fc.asyncProperty(deliveries, async (made) => {
      const delivery = sent(made);
      const { headerPrefix } = made;
      const names = ['Signature', ...(made.next === null ? [] : ['Signature-Next'])];
      const hex = names.map((name) => [`${headerPrefix}-Webhook-${name}`, true] as const);
      const all = saysOf(delivery, [made.key, ...(made.next === null ? [] : [made.next])], headerPrefix);
      assert.deepEqual(all, Object.fromEntries([...hex, ['webhook-signature', true]]));
      assert.notEqual(await isVerified(delivery, made.key, headerPrefix), false);
    }),
    { numRuns: 500 },
  );
});

test('no signature matches another body, and the package agrees', async () => {
  await fc.assert(
    fc.asyncProperty(deliveries, async (made) => {
      const delivery = sent(made);
      const other = { ...delivery, body: Buffer.concat([delivery.body, Buffer.of(0)]) };
      assert.ok(!Object.values(saysOf(other, [made.key], made.headerPrefix)).includes(true));
      assert.notEqual(await isVerified(other, made.key, made.headerPrefix), true);
    }),
  );
});
