import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assert as check, constantFrom, property, string } from 'fast-check';
import { formTargets, isSameRedirect, shownHost, whyNotRegistrable, withParameters } from './redirect-uri.ts';
import { anyText } from '../../../test/setup/any-text.ts';

test('addresses that an app can receive a redirect on are accepted', () => {
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

test('addresses that could send a code to a third party, or run a script, are refused', () => {
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

test('a parameter of the response is refused however it is written, and in an address of any scheme', () => {
  for (const query of ['code=1', 'a=1&state', 'error=&b', 'c%6fde=1', '&&iss=x', 'error_description=+'])
    for (const uri of ['https://app.example.com/cb', 'http://127.0.0.1/cb', 'com.example.app:/cb'])
      assert.match(whyNotRegistrable(`${uri}?${query}`) ?? '', /^must not have the parameter /, `${uri}?${query}`);
  for (const query of ['Code=1', 'codes=1', 'x=code', 'a%26code=1', 'my_state=1'])
    assert.equal(whyNotRegistrable(`https://app.example.com/cb?${query}`), undefined, query);
});

test('any text added to an address as a parameter is read back unchanged', () => {
  check(
    property(string({ unit: 'grapheme' }), anyText(), (state, other) => {
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

test('form-action gets the origin and the targets that a callback may redirect to', () => {
  const https = formTargets('https://app.example.com:8443/cb?x=1');
  assert.deepEqual(https, ['https://app.example.com:8443', 'https:']);
  const loopback = ['http://localhost:*', 'http://127.0.0.1:*', 'https:'];
  assert.deepEqual(formTargets('http://localhost:3000/cb'), loopback);
  assert.deepEqual(formTargets('http://127.0.0.1:3000/cb'), loopback);
});

test('form-action gets a scheme if its grammar cannot express the host', () => {
  assert.deepEqual(formTargets('http://[::1]:3000/cb'), ['http:', 'https:']);
  assert.deepEqual(formTargets('https://[2001:db8::1]/cb'), ['https:']);
  assert.deepEqual(formTargets('com.example.app:/cb'), ['com.example.app:']);
});

test('the consent page names the host, and says if an app is on the device', () => {
  assert.equal(shownHost('https://app.example.com:8443/cb'), 'app.example.com:8443');
  assert.match(shownHost('http://127.0.0.1:3000/cb'), /^127\.0\.0\.1:3000 .*this computer/);
  assert.match(shownHost('com.example.app:/cb'), /^com\.example\.app: .*this device/);
});

test('the loopback port is free for public clients only', () => {
  for (const host of ['http://127.0.0.1', 'http://[::1]', 'http://localhost']) {
    for (const registered of [`${host}/cb?x=1`, `${host}:8000/cb?x=1`]) {
      for (const port of ['', ':1', ':80', ':8000', ':65535']) {
        const given = `${host}${port}/cb?x=1`;
        assert.equal(isSameRedirect(registered, given, true), true, `${given} for ${registered}`);
        assert.equal(isSameRedirect(registered, given, false), given === registered);
      }
    }
    assert.equal(isSameRedirect(host, `${host}:5000`, true), true);
  }
});

test('only the port is free, for any address', () => {
  const hosts = constantFrom('127.0.0.1', '[::1]', 'localhost');
  check(
    property(hosts, string({ unit: 'grapheme-ascii' }), string({ unit: 'grapheme-ascii' }), (host, before, after) => {
      const registered = `http://${host}/cb`;
      const given = `http://${host}${before}/cb${after}`;
      const isPort = /^(?::[1-9][0-9]{0,4})?$/.test(before) && Number(before.slice(1) || 80) < 65_536;
      assert.equal(isSameRedirect(registered, given, true), isPort && after === '');
    }),
  );
});

test('no other address has a free port, and each loopback host is itself only', () => {
  for (const host of [
    'https://app.example.com',
    'https://localhost',
    'http://localhost.example.com',
    'http://127.0.0.2',
  ])
    assert.equal(isSameRedirect(`${host}/cb`, `${host}:3000/cb`, true), false, host);
  const loopback = ['127.0.0.1', '[::1]', 'localhost', 'LOCALHOST', 'localhost.'];
  for (const registered of loopback)
    for (const given of loopback.filter((host) => host !== registered))
      assert.equal(isSameRedirect(`http://${registered}/cb`, `http://${given}/cb`, true), false, given);
});
