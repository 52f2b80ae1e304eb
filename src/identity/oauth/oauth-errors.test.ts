import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refusals, rejections, tokenErrors } from './oauth-errors.ts';

test('every code and description contains only the characters that RFC 6749 allows', () => {
  const faults = [refusals, rejections, tokenErrors].flatMap((table) => Object.values(table));
  assert.ok(faults.length > 20);
  for (const { error, description } of faults) {
    assert.match(error, /^[a-z_]+$/);
    assert.match(description, /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/);
  }
});
