import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isLoopback } from './loopback.ts';

test('loopback is 127.0.0.0/8, ::1 and localhost, in every URL spelling, and no other name', () => {
  const hostOf = (host: string): string => new URL(`http://${host}`).hostname;
  for (const host of ['127.0.0.1', '127.9.8.7', '127.1', '0x7f.1', '2130706433', 'LOCALHOST', '[::1]', '[0:0::1]'])
    assert.ok(isLoopback(hostOf(host)), host);
  for (const host of ['128.0.0.1', '1.127.0.0', '127.example.com', '127.0.0.1.example', 'localhost.example', '[::2]'])
    assert.ok(!isLoopback(hostOf(host)), host);
  for (const host of ['127.0.0.256', '127.0.0', 'my-localhost']) assert.ok(!isLoopback(host), host);
});
