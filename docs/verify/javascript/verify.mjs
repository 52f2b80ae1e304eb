// node verify.mjs keys.txt headers.txt body.bin
import { createHmac, timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';

const AGE_SECONDS = 300;

function isEqual(one, two) {
  const [a, b] = [Buffer.from(one), Buffer.from(two)];
  return a.length === b.length && timingSafeEqual(a, b);
}
const hmac = (key, text, encoding) => createHmac('sha256', key).update(text).digest(encoding);

/** Only base64 in its canonical spelling is decoded: any other key is its own UTF-8 bytes. */
function decoded(key) {
  const text = key.startsWith('whsec_') ? key.slice(6) : '';
  const bytes = Buffer.from(text, 'base64');
  return text !== '' && bytes.toString('base64') === text ? bytes : key;
}

/** Throws where something is wrong. Names of headers in lower case; `keys` are both while the key is rotated. */
function verify(keys, headers, body) {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp } = headers;
  const signed = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
  const list = (headers['webhook-signature'] ?? '').split(' ');
  const hexes = [headers['service-webhook-signature'] ?? '', headers['service-webhook-signature-next'] ?? ''];
  if (!keys.some((key) => list.some((one) => isEqual(one, `v1,${hmac(decoded(key), signed, 'base64')}`))))
    throw new Error('webhook-signature is wrong');
  if (!keys.some((key) => hexes.some((one) => isEqual(one, hmac(key, body, 'hex')))))
    throw new Error('Service-Webhook-Signature is wrong');
  // Not <, so that what is no number is refused.
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= AGE_SECONDS))
    throw new Error('too old, or a clock is wrong');
}

const linesOf = (path) => readFileSync(path, 'utf8').split(/\r?\n/).filter(Boolean);
const [keysFile, headersFile, bodyFile] = process.argv.slice(2);
const pairs = linesOf(headersFile).map((line) => /^([^:]+): *(.*)$/.exec(line).slice(1));
const headers = Object.fromEntries(pairs.map(([name, value]) => [name.toLowerCase(), value]));
try {
  verify(linesOf(keysFile), headers, readFileSync(bodyFile));
  console.log('verified', headers['webhook-id']);
} catch (error) {
  console.error('refused:', error.message);
  process.exitCode = 1;
}
