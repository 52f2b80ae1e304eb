/**
 * For any request target, each listener of Halcyon answers and continues: the API with sign-in and
 * pages, the metrics, the demo's receiver, and the callback of `halcyon login`.
 */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { startDemoReceiver } from '../../src/cli/demo-receiver/receiver-server.ts';
import { openLoopback } from '../../src/cli/session/authorize-terminal.ts';
import { startTestApp } from '../setup/app.ts';
import { cleanups } from '../setup/cleanups.ts';
import { freePort } from '../setup/free-port.ts';

const RUNS = 150;
const TIMEOUT_MS = 30_000;

const ends = cleanups();
const metricsPort = await freePort();
const app = await startTestApp({ roles: ['serve'], env: { METRICS_PORT: String(metricsPort) } });
const demo = await startDemoReceiver({ port: 0, key: 'k', headerPrefix: 'Service', playedUntilMs: 0, print: () => {} });
ends.after(() => demo.stop());
const login = await openLoopback({ state: 's', issuer: app.baseUrl });
ends.after(async () => login[Symbol.asyncDispose]());

const LISTENERS: readonly (readonly [name: string, port: number, soundPath: string, status: number])[] = [
  ['the API', Number(new URL(app.baseUrl).port), '/docs', 200],
  ['the metrics', metricsPort, '/health/live', 200],
  ['the demo receiver', demo.port, '/', 200],
  ['the login', Number(new URL(login.redirectUri).port), '/callback', 400],
];

/** Invalid for some parser, or different from what they look like. */
const ODD = [
  ...'// /// //@ //[ /\\ \\\\ * ? # % /% /%00 /%ff /%c0%ae /.. /./ /a//b : :: a http:// http:/// http://[ http://%'.split(
    ' ',
  ),
  ...'https://x:99999/ file:///etc/passwd javascript:0 /__proto__ /constructor /callback?state=%ff /callback//'.split(
    ' ',
  ),
  'http://a b',
  '/\u0001',
  '/\u0080',
  '/\u00ff',
];
const target = fc.oneof(
  fc.constantFrom(...ODD),
  fc.array(fc.constantFrom(...ODD), { minLength: 2, maxLength: 4 }).map((parts) => parts.join('')),
  fc.string({ unit: 'binary-ascii', maxLength: 40 }).map((text) => `/${text.replace(/[\r\n]/g, '')}`),
  fc.integer({ min: 1, max: 20_000 }).map((length) => `/${'a'.repeat(length)}`),
);
const method = fc.constantFrom('GET', 'POST', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'TRACE');

/** Returns the status of the first answer; undefined if the connection ends without one, or times out. */
async function send(port: number, text: string): Promise<number | undefined> {
  const socket = connect({ port, host: '127.0.0.1' });
  const { promise, resolve } = Promise.withResolvers<number | undefined>();
  let said = '';
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy());
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    said += chunk;
    const status = /^HTTP\/1\.1 (\d{3}) .*\r\n\r\n/s.exec(said)?.[1];
    if (status !== undefined) resolve(Number(status));
  });
  socket.once('error', () => socket.destroy());
  socket.once('close', () => resolve(undefined));
  socket.write(Buffer.from(text, 'latin1'));
  return promise.finally(() => socket.destroy());
}

const ask = (port: number, how: string, at: string): Promise<number | undefined> =>
  send(port, `${how} ${at} HTTP/1.1\r\nHost: localhost:${port}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);

for (const [name, port, soundPath, sound] of LISTENERS) {
  test(`${name} answers any request target, and the next request`, async () => {
    const answers = async (how: string, at: string) => {
      const status = await ask(port, how, at);
      assert.ok(status !== undefined && status < 500, `${how} ${at}: ${status}`);
    };
    for (const at of ODD) await answers('GET', at);
    await fc.assert(fc.asyncProperty(method, target, answers), { numRuns: RUNS });
    assert.equal(await ask(port, 'GET', soundPath), sound);
  });
}

test('the demo receiver answers to its own host name only', async () => {
  for (const host of ['evil.example.com', `evil.example.com:${demo.port}`, '', '[', '10.0.0.1']) {
    const status = await send(demo.port, `GET /last HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    assert.equal(status, 421, host);
  }
});
