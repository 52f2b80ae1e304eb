/**
 * packages/vectors.json and handshake.json: what the packages for receivers must make of genuine and forged deliveries, and of a service
 * that asks for permission.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { handshakeHeaders, verifyDelivery, WebhookError } from '#receiver';
import handshakes from '../../packages/handshake.json' with { type: 'json' };
import { PAYLOADS, payloadTypes } from '../../scripts/payload-types.ts';
import { VECTORS, vectors, type Vector } from '../../scripts/receiver-vectors.ts';

const written = JSON.parse(await readFile(VECTORS, 'utf8')) as Vector[];

async function resultOf({ headers, bodyBase64, keys, headerPrefix, now }: Vector) {
  const arrival = { headers, body: Buffer.from(bodyBase64, 'base64'), keys, headerPrefix };
  try {
    const { json: _json, ...rest } = await verifyDelivery({ ...arrival, now: () => new Date(now * 1000) });
    const { body, timestamp, ...delivery } = rest;
    const bodyResult = Buffer.from(body).toString('base64');
    return { accepted: { ...delivery, timestamp: timestamp.getTime() / 1000, bodyBase64: bodyResult } };
  } catch (error) {
    assert.ok(error instanceof WebhookError, String(error));
    return { rejected: error.code };
  }
}

test('the package accepts and rejects each vector, and returns what it has', async () => {
  for (const vector of written) {
    const expected = 'accepted' in vector ? { accepted: vector.accepted } : { rejected: vector.rejected };
    assert.deepEqual(await resultOf(vector), expected, vector.name);
  }
});

test('the types of bodies are those of the event catalogue', async () => {
  assert.equal(await readFile(PAYLOADS, 'utf8'), payloadTypes(), 'run: node scripts/payload-types.ts');
});

test('the vectors are those of the engine, except for the random encryption', () => {
  const isEncrypted = ({ headers }: Vector): boolean => /jose/.test(String(headers['content-type']));
  const made = vectors();
  assert.deepEqual(
    written.map(({ name }) => name),
    made.map(({ name }) => name),
  );
  const plain = (list: readonly Vector[]) => list.filter((vector) => !isEncrypted(vector));
  assert.deepEqual(plain(written), plain(made), 'run: node scripts/receiver-vectors.ts');
});

test('a service gets permission only if it is the allowed one', () => {
  for (const { name, headers, allowedOrigin, isAllowed } of handshakes) {
    const answer = handshakeHeaders({ headers: { ...headers }, allowedOrigin: allowedOrigin ?? undefined });
    const permission = { Allow: 'POST', 'WebHook-Allowed-Origin': allowedOrigin, 'WebHook-Allowed-Rate': '*' };
    assert.deepEqual(answer, isAllowed ? permission : undefined, name);
  }
});
