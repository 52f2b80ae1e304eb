import assert from 'node:assert/strict';
import { test } from 'node:test';
import { array, assert as check, constantFrom, oneof, property, string } from 'fast-check';
import { returnPath } from './signed-in.ts';

const here = 'https://auth.example';

test('paths of this site are kept unchanged', () => {
  for (const path of ['/', '/sign-in', '/authorize?client_id=a&state=%C3%A9%2F%2F', '/a//b']) {
    assert.equal(returnPath(path), path);
  }
});

test('a path that a browser could resolve to another host is refused', () => {
  const hostile = [
    null,
    '',
    'sign-in',
    '//evil.example',
    '///evil.example',
    '/\\evil.example',
    '\\\\evil.example',
    '/a\\b',
    'https://evil.example',
    'javascript:alert(1)',
    '/\t/evil.example',
    '/\n/evil.example',
    '/a\r\nSet-Cookie: x=y',
    ' /a',
    '/a b',
    '/\u0000',
    '/é',
    '/\u007f',
  ];
  for (const text of hostile) assert.equal(returnPath(text), undefined, JSON.stringify(text));
});

test('every accepted path leads to this site', () => {
  const piece = constantFrom('/', '\\', '.', '..', '@', ':', '%2f', 'evil.example', '\t', '?', '#', 'https:');
  check(
    property(array(oneof(piece, string({ maxLength: 3 })), { maxLength: 8 }), (pieces) => {
      const path = returnPath(pieces.join(''));
      if (path !== undefined) assert.equal(new URL(path, here).origin, here);
    }),
  );
});
