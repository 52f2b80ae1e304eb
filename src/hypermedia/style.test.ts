import assert from 'node:assert/strict';
import { test } from 'node:test';
import { iconRules } from './style.ts';

test('each state has an icon of its own, which needs no request', () => {
  const outlines = [...iconRules.matchAll(/^(\.badge[.a-z]*)::before\{clip-path:path\("(M[\w\s.,-]+)"\)\}$/gm)];
  assert.deepEqual(
    outlines.map(([, selector]) => selector),
    ['.badge', '.badge.fine', '.badge.broken', '.badge.plain', '.badge.caution'],
  );
  assert.equal(new Set(outlines.map(([, , outline]) => outline)).size, outlines.length);
  assert.doesNotMatch(iconRules, /url|<|@import/);
});
