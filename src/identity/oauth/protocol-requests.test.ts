import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isValidChallenge, verifierFits } from './protocol-requests.ts';

/** RFC 7636, appendix B. */
const VERIFIER = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk';
const CHALLENGE = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM';

test('the example of RFC 7636 verifies', () => {
  assert.equal(verifierFits(VERIFIER, CHALLENGE), true);
  assert.equal(verifierFits(undefined, null), true);
});

test('a wrong, missing, malformed or unexpected verifier does not verify', () => {
  assert.equal(verifierFits(`${VERIFIER}a`, CHALLENGE), false);
  assert.equal(verifierFits(undefined, CHALLENGE), false);
  assert.equal(verifierFits(VERIFIER, null), false);
  assert.equal(verifierFits(CHALLENGE, CHALLENGE), false);
  assert.equal(verifierFits('short', CHALLENGE), false);
  assert.equal(verifierFits(`${VERIFIER}+`, CHALLENGE), false);
  assert.equal(verifierFits('a'.repeat(129), CHALLENGE), false);
});

test('a challenge requires S256, and a method requires a challenge', () => {
  assert.equal(isValidChallenge(undefined, undefined), true);
  assert.equal(isValidChallenge(CHALLENGE, 'S256'), true);
  assert.equal(isValidChallenge(CHALLENGE, 'plain'), false);
  assert.equal(isValidChallenge(CHALLENGE, 's256'), false);
  assert.equal(isValidChallenge(CHALLENGE, undefined), false);
  assert.equal(isValidChallenge(undefined, 'S256'), false);
  assert.equal(isValidChallenge(`${CHALLENGE}=`, 'S256'), false);
  assert.equal(isValidChallenge(CHALLENGE.slice(1), 'S256'), false);
});
