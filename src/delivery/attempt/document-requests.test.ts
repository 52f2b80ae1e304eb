/** DocumentRequests on real sockets: what a server of them may not do to this process. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createLog } from '#core/log.ts';
import { testClock } from '../../../test/setup/clock.ts';
import { startDocumentHost } from '../../../test/setup/document-host.ts';
import { loopback } from '../../../test/setup/exchanges.ts';
import { until } from '../../../test/setup/until.ts';
import { DocumentRequests } from './single-requests.ts';

const settings = {
  userAgent: 'Halcyon/test',
  connectTimeoutMs: 5_000,
  idleSocketMs: 20_000,
  connectionAgeMs: 300_000,
  tlsSessions: 10,
};
const host = await startDocumentHost();
const silent = host.respondAt('/silent', () => {});
const slow = host.respondAt('/slow', (response) => {
  response.writeHead(200, { 'Content-Type': 'application/json' });
  const writing = setInterval(() => response.write(' '), 5);
  response.on('close', () => clearInterval(writing));
});

function documentsWith(documentTimeoutMs: number): DocumentRequests {
  const runtime = { guard: loopback, clock: testClock(), log: createLog('silent') };
  const documents = new DocumentRequests(runtime, { ...settings, documentTimeoutMs });
  after(() => documents.stop());
  return documents;
}

const later = { kind: 'failed', why: 'it cannot be fetched now; try again shortly' };

test('a document has its headers, also after those of a large policy', async () => {
  const url = host.respondAt('/document', (response) =>
    response
      .writeHead(
        200,
        [
          ['Content-Security-Policy', 'x'.repeat(6 * 1024)],
          ['Content-Type', 'Application/JSON'],
          ['Cache-Control', 'public'],
          ['Cache-Control', 'max-age=9'],
        ].flat(),
      )
      .end('{}'),
  );
  const fetched = await documentsWith(5_000).fetch(url);
  assert.ok(fetched.kind === 'document');
  assert.equal(fetched.text, '{}');
  assert.equal(fetched.headers.get('cache-control'), 'public, max-age=9');
});

test('a server that does not respond, or writes a byte at a time, ends at the time limit', async () => {
  const documents = documentsWith(100);
  for (const url of [silent, slow])
    assert.deepEqual(await documents.fetch(url), { kind: 'failed', why: 'there was no valid response in time' });
});

test('at most 16 are fetched at once, and a stop ends them', async () => {
  const documents = documentsWith(60_000);
  const before = host.got.length;
  const fetching = Array.from({ length: 16 }, async () => documents.fetch(silent));
  assert.deepEqual(await documents.fetch(host.publish('/seventeenth')), later);
  await until(
    async () => host.got.length,
    (count) => count === before + 16,
  );
  await documents.stop();
  assert.deepEqual(
    await Promise.all(fetching),
    Array.from({ length: 16 }, () => later),
  );
  assert.deepEqual(await documents.fetch(silent), later);
  assert.equal(host.got.length, before + 16);
});
