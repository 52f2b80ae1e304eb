import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { array, assert as assertAll, constantFrom, property, string } from 'fast-check';
import { harmless } from '#core/legible.ts';
import { curlCommand, shellWord } from './curl.ts';

/** Returns the arguments that a POSIX shell gives to curl. */
function argumentsIn(command: string): string[] {
  const printing = `curl() { for one do printf '%s\\0' "$one"; done; }\n${command}`;
  const environment = { PATH: process.env['PATH'], HOME: '/expanded', IFS: '' };
  return execFileSync('sh', ['-eu', '-c', printing], { env: environment, encoding: 'utf8' }).split('\0').slice(0, -1);
}

const HEADERS = ['content-type: application/json', 'Service-Store-ID: 1', 'webhook-timestamp: 1'];
const request = { method: 'POST', url: 'https://shop.example/hooks', headers: HEADERS.join('\n'), body: '{"id":1}' };
const commandOf = (changes: Partial<typeof request> = {}): string => {
  const command = curlCommand({ ...request, ...changes });
  assert.ok(command !== undefined);
  return command;
};

test('the command has the address, the headers and the body of the request', () => {
  assert.deepEqual(argumentsIn(commandOf()), [
    '--globoff',
    '--request',
    'POST',
    'https://shop.example/hooks',
    ...HEADERS.flatMap((line) => ['--header', line]),
    '--data-raw',
    '{"id":1}',
  ]);
});

const HOSTILE = [
  `it's`,
  `'`,
  `''';touch /tmp/x;'`,
  '$HOME ${HOME} $(id) `id`',
  'a\nb\n',
  '\\',
  '"',
  '!! !x',
  '*?[a]~{a,b}',
  '@/etc/passwd',
  '-o x',
  ' blank ',
  'Zoë 日本 🛒',
  '%s\\n',
  '#',
  '',
];

test('a shell reads every word as it was written', () => {
  assert.deepEqual(argumentsIn(`curl ${HOSTILE.map(shellWord).join(' ')}`), HOSTILE);
  for (const text of HOSTILE) {
    const body = JSON.stringify({ text });
    const header = `x-name: ${text.replaceAll('\n', '')}`.trimEnd();
    const read = argumentsIn(commandOf({ body, headers: `${header}\n${request.headers}` }));
    assert.equal(read.at(-1), body);
    assert.equal(read[5], header === 'x-name:' ? 'x-name;' : header);
  }
});

test('a shell reads any texts as they were written', () => {
  const word = string({ unit: constantFrom(...Array.from(`'"\\$\`!#*?~&|;<>(){}[]=@-% \n\téa1`)) });
  assertAll(
    property(array(word, { maxLength: 20 }), (words) => {
      assert.deepEqual(argumentsIn(`curl ${words.map(shellWord).join(' ')}`), words);
    }),
    { numRuns: 60 },
  );
});

test('the command contains no secret', () => {
  const secrets = ['x-team: SECRET', 'Service-Webhook-Signature: SECRET', 'webhook-signature: v1,SECRET'];
  const command = commandOf({
    url: 'https://SECRET:SECRET@shop.example/hooks?token=SECRET#SECRET',
    headers: [...HEADERS, ...secrets, 'authorization: Bearer SECRET'].join('\n'),
  });
  assert.doesNotMatch(command, /SECRET|x-team|authorization|signature/i);
  assert.equal(argumentsIn(command)[3], 'https://shop.example/hooks');
});

test('headers without the one after which secrets follow are left out', () => {
  assert.doesNotMatch(commandOf({ headers: 'content-type: application/json\nx-team: SECRET' }), /--header/);
});

test('characters that a page must not contain are escaped in JSON', () => {
  const body = '{"a":"x\u202ey\u2028"}';
  const command = commandOf({ body });
  assert.equal(harmless(command), command);
  assert.equal(argumentsIn(command).at(-1), String.raw`{"a":"x\u202ey\u2028"}`);
});

test('there is no command for an encrypted body, other control characters, and without an address', () => {
  assert.equal(curlCommand({ ...request, headers: 'content-type: application/jose' }), undefined);
  assert.equal(curlCommand({ ...request, body: 'a\u202eb' }), undefined);
  assert.equal(curlCommand({ ...request, body: '{\r"a":1}' }), undefined);
  assert.equal(curlCommand({ ...request, url: '' }), undefined);
  assert.equal(curlCommand({ ...request, url: 'file:///etc/passwd' }), undefined);
});
