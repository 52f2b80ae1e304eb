import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OUTCOME_LABELS, reasonOf, reasonOfDelivery } from './history-documents.ts';

const refused = (responseCode: number): string => reasonOf({ outcome: 'refused', responseCode })?.text ?? '';

test('for any status the reason names it and says what to do', () => {
  for (let code = 100; code < 1_000; code += 1) {
    if (code >= 200 && code < 300) continue;
    assert.match(refused(code), new RegExp(`^Your endpoint answered ${code}: .*\\.$`), String(code));
  }
  assert.match(refused(401), /encryption_key/);
  assert.match(refused(308), /redirects are not followed/);
  assert.match(refused(418), /Its response may say why/);
  assert.match(refused(500), /Check its log/);
  assert.equal(new Set([400, 401, 403, 404, 405, 408, 413, 415, 422, 429, 500, 502, 503, 504].map(refused)).size, 14);
});

test('a successful delivery and one without any attempt have no reason', () => {
  for (const outcome of ['delivered', 'constructor', '', null])
    assert.equal(reasonOf({ outcome, responseCode: 200 }), null);
});

test('a delivery ended before its first attempt says so, and any other has the reason of its last', () => {
  const never = { status: 'failed', attempts: 0, outcome: null, responseCode: null };
  assert.equal(reasonOfDelivery(never)?.what, 'It was never sent');
  assert.equal(reasonOfDelivery({ ...never, status: 'pending' }), null);
  const last = { outcome: 'unreachable:tls', responseCode: null };
  assert.deepEqual(reasonOfDelivery({ ...last, status: 'failed', attempts: 3 }), reasonOf(last));
});

test('a reason begins with what happened', () => {
  for (const outcome of OUTCOME_LABELS) {
    const found = reasonOf({ outcome, responseCode: 500 });
    if (found !== null) assert.match(found.text.slice(found.what.length), /^[.:] /, outcome);
  }
});
