import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { hexSignature, standardSignature, webhookMessageId } from './request.ts';

const body = Buffer.from('{"id":1,"name":"Zoë"}');
const id = 'msg_abc';
const timestamp = Math.floor(Date.now() / 1000);

const headers = (signature: string) => ({
  'webhook-id': id,
  'webhook-timestamp': String(timestamp),
  'webhook-signature': signature,
});

test('a key with the prefix whsec_ is verified by the standardwebhooks package', () => {
  const key = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const signature = standardSignature(body, id, timestamp, key);
  assert.deepEqual(new Webhook(key).verify(body.toString(), headers(signature)), { id: 1, name: 'Zoë' });
});

test('any other key signs with its UTF-8 bytes', () => {
  const key = 'schlüssel';
  const signature = standardSignature(body, id, timestamp, key);
  assert.doesNotThrow(() =>
    new Webhook(Buffer.from(key), { format: 'raw' }).verify(body.toString(), headers(signature)),
  );
});

for (const key of [
  'whsec_not base64!',
  'whsec_',
  'whsec_c2VjcmV',
  'whsec_c2VjcmV0\n',
  'whsec_c2VjcmV1=',
  'whsec_-_-_',
]) {
  test(`whsec_ followed by what is not base64 is a key like any other: ${JSON.stringify(key)}`, () => {
    const signature = standardSignature(body, id, timestamp, key);
    assert.doesNotThrow(() =>
      new Webhook(Buffer.from(key), { format: 'raw' }).verify(body.toString(), headers(signature)),
    );
  });
}

test('another body is not verified', () => {
  const key = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const signature = standardSignature(body, id, timestamp, key);
  assert.throws(() => new Webhook(key).verify('{"id":2}', headers(signature)));
});

test('the hex signature is HMAC-SHA256 under the whole key string', () => {
  const key = 'whsec_AAAA';
  assert.equal(hexSignature(body, key), createHmac('sha256', key).update(body).digest('hex'));
});

test('a webhook-id differs by event, by webhook and by the random part', () => {
  const ids = [
    webhookMessageId(1, 2, 3),
    webhookMessageId(9, 2, 3),
    webhookMessageId(1, 9, 3),
    webhookMessageId(1, 2, 9),
  ];
  assert.equal(new Set(ids).size, 4);
  assert.equal(webhookMessageId(1, 2, 3), ids[0]);
});
