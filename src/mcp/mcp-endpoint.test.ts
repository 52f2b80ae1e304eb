import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMcp } from './mcp-endpoint.ts';

const baseUrl = 'http://localhost:8080';
const serve = createMcp({ baseUrl, authUrl: baseUrl, version: '1', relationPrefix: 'shop' });
const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

const requestOf = (method: string, params: object) => ({
  headers,
  bytes: Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })),
});
const unused = () => assert.fail('no request was expected');

test('an internal error of a tool is thrown, so that it is logged, and its text is not sent', async () => {
  const failed = new TypeError('a text with a secret');
  const request = requestOf('tools/call', { name: 'read', arguments: { href: '/' } });
  await assert.rejects(
    serve(request, async () => {
      throw failed;
    }),
    failed,
  );
});

test('the instructions name relations with the prefix of the server', async () => {
  const clientInfo = { name: 'agent', version: '1' };
  const request = requestOf('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo });
  const { body } = await serve(request, unused);
  assert.ok(typeof body === 'string' && body.includes('shop:…'));
});
