import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assert as check, property, string } from 'fast-check';
import { formTarget, shownHost, whyNotRegistrable, withParameters } from './redirect-uri.ts';

test('addresses that an app can be reached at are registered', () => {
  const good = [
    'https://app.example.com/cb',
    'https://app.example.com',
    'https://app.example.com:8443/cb?keep=1&x=%20',
    'https://xn--bcher-kva.example/cb',
    'https://[2001:db8::1]/cb',
    'http://localhost:3000/cb',
    'http://127.0.0.1/cb',
    'http://[::1]:9000/cb',
    'com.example.app:/cb',
  ];
  for (const uri of good) assert.equal(whyNotRegistrable(uri), undefined, uri);
});

test('addresses that could send a code to somebody else, or run, are refused', () => {
  const bad = [
    '',
    '/cb',
    'cb',
    '//app.example.com/cb',
    'https:app.example.com',
    'https:/app.example.com/cb',
    'https:///app.example.com/cb',
    'https://app.example.com/cb#fragment',
    'https://app.example.com/cb#',
    'https://*.example.com/cb',
    'https://app.example.com/*',
    'http://app.example.com/cb',
    'http://127.0.0.2/cb',
    'http://localhost.example.com/cb',
    'http://10.0.0.1/cb',
    'https://user@app.example.com/cb',
    'https://user:password@app.example.com/cb',
    'https://@app.example.com/cb',
    'https://good.example\\@evil.example/cb',
    'https://app.example.com/c b',
    'https://app.example.com/\tcb',
    'https://app.example.com/cb\n',
    'https://app.example.com/"onload',
    'https://app.example.com/<script>',
    'https://a;script-src/cb',
    'https://bücher.example/cb',
    'https://',
    'javascript:alert(1)',
    'JavaScript:alert(1)',
    'data:text/html,x',
    'vbscript:x',
    'file:///etc/passwd',
    'about:blank',
    'blob:https://app.example.com/x',
    'myapp:/cb',
    'ftp://app.example.com/cb',
    `https://app.example.com/${'a'.repeat(2_000)}`,
  ];
  for (const uri of bad) assert.notEqual(whyNotRegistrable(uri), undefined, uri);
});

test('whatever text goes onto an address comes off it as it was', () => {
  check(
    property(string({ unit: 'grapheme' }), string({ unit: 'binary' }), (state, other) => {
      for (const uri of ['https://app.example.com/cb', 'https://app.example.com/cb?keep=1', 'com.example.app:/cb?']) {
        const location = withParameters(uri, { state, other, absent: undefined });
        assert.ok(location.startsWith(uri));
        assert.match(location, /^[\x21-\x7e]+$/);
        const read = new URL(location).searchParams;
        assert.deepEqual([read.getAll('state'), read.getAll('other')], [[state], [other]]);
        assert.equal(read.has('absent'), false);
        assert.equal(read.get('keep'), uri.includes('keep') ? '1' : null);
      }
    }),
  );
});

test('form-action gets an origin, or a scheme where its grammar has no word for the host', () => {
  assert.equal(formTarget('https://app.example.com:8443/cb?x=1'), 'https://app.example.com:8443');
  assert.equal(formTarget('http://localhost:3000/cb'), 'http://localhost:3000');
  assert.equal(formTarget('http://[::1]:3000/cb'), 'http:');
  assert.equal(formTarget('com.example.app:/cb'), 'com.example.app:');
  assert.equal(shownHost('https://app.example.com:8443/cb'), 'app.example.com:8443');
  assert.equal(shownHost('com.example.app:/cb'), 'com.example.app:');
});
