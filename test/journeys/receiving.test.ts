/** /docs/receiving of a server with a header prefix of its own: its programs are the tested ones, and verify its deliveries. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { gapsMs } from '#delivery/policy/policy.ts';
import { startTestApp } from '../setup/app.ts';
import { cleanups } from '../setup/cleanups.ts';
import { startReceiver } from '../setup/receiver.ts';

const PROGRAMS = join(import.meta.dirname, '../../docs/verify');
const FILES = {
  JavaScript: 'javascript/verify.mjs',
  Python: 'python/verify.py',
  PHP: 'php/verify.php',
  Ruby: 'ruby/verify.rb',
  Go: 'go/verify.go',
  Java: 'java/Verify.java',
} as const;
const PREFIX = 'Acme-Shop';
const KEY = `whsec_${Buffer.alloc(32, 3).toString('base64')}`;

const ends = cleanups();
const env = {
  WEBHOOK_HEADER_PREFIX: PREFIX,
  RETENTION_DAYS: '17',
  DELIVERY_TIMEOUT_MS: '12000',
  DEACTIVATE_AFTER_FAILURES: '7',
};
const app = await startTestApp({ env });
const folder = await mkdtemp(join(tmpdir(), 'halcyon-receiving-'));
ends.after(() => rm(folder, { recursive: true, force: true }));

const ask = async (accept: string): Promise<string> => {
  const response = await fetch(`${app.baseUrl}/docs/receiving`, { headers: { Accept: accept } });
  assert.equal(response.status, 200);
  return response.text();
};
type Receiving = {
  header_prefix: string;
  timeout_seconds: number;
  retry_seconds: Record<string, number[]>;
  programs: { language: keyof typeof FILES; source: string }[];
};
const page = await ask('text/html');
const receiving = JSON.parse(await ask('application/hal+json')) as Receiving;

const run = (...args: string[]): Promise<string> =>
  promisify(execFile)(process.execPath, args).then(
    ({ stdout }) => stdout,
    (error: { stderr?: string }) => String(error.stderr),
  );

const escaped = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');

test('the programs are those that are tested with deliveries, apart from the names of the headers', async () => {
  assert.deepEqual(
    receiving.programs.map(({ language }) => language),
    Object.keys(FILES),
  );
  for (const { language, source } of receiving.programs) {
    const tested = await readFile(join(PROGRAMS, FILES[language]), 'utf8');
    assert.equal(source.replaceAll(PREFIX, 'Service').replaceAll(PREFIX.toLowerCase(), 'service'), tested, language);
    assert.doesNotMatch(source, /service-|Service-/, language);
    assert.ok(page.includes(`<pre class="copyable">${escaped(source)}</pre>`), language);
  }
});

test('the page has the table of the document that says where the raw body is', async () => {
  const text = await readFile(join(PROGRAMS, '../receiving.md'), 'utf8');
  const rows = [...text.matchAll(/^\| \[(\w+)\]\(verify\/.*?\| (.*) \|$/gm)];
  assert.deepEqual(
    rows.map(([, language]) => language),
    Object.keys(FILES),
  );
  const plain = page.replaceAll(/<\/?code>/g, '');
  for (const [, language, where = ''] of rows)
    assert.ok(plain.includes(escaped(where.replaceAll('`', ''))), `${language}: ${where}`);
});

test('the page has the names and values of this server', () => {
  for (const name of ['Webhook-Event', 'Webhook-Signature', 'Webhook-Signature-Next', 'Store-ID'])
    assert.ok(page.includes(`${PREFIX}-${name}`), name);
  assert.doesNotMatch(page, /Service-/);
  assert.ok(page.includes(`headerPrefix: &#39;${PREFIX}&#39;`), 'the example verifies deliveries of this server');
  assert.equal(receiving.header_prefix, PREFIX);
  assert.equal(receiving.timeout_seconds, 12);
  assert.match(page, /within 12 s\b/);
  assert.match(page, /\b17 days\b/);
  assert.match(page, /\b7 consecutive failures over at least 1 h\b/);
  assert.match(page, /\b1 min, 1 min, 2 min, .*13 min\b/);
  assert.match(page, /\b5 s, 5 min, 30 min, .*24 h\b/);
  for (const [profile, gaps] of Object.entries(gapsMs))
    assert.deepEqual(
      receiving.retry_seconds[profile],
      gaps.map((ms) => ms / 1_000),
    );
});

test('the shown JavaScript program verifies a delivery of this server, and refuses a changed one', async (t) => {
  const receiver = await startReceiver(t);
  const body = { name: 'x', format: 'json', encryption_key: KEY, url: receiver.url, event_resource: 'transaction' };
  const created = await app.api('POST', `/stores/${app.storeId}/webhooks`, { body });
  assert.equal(created.status, 201, await created.clone().text());
  const event = { event: 'transaction/created', resource: { id: 1, total: 5 } };
  const published = await app.api('POST', `/stores/${app.storeId}/events`, { token: app.platformToken, body: event });
  assert.equal(published.status, 201);
  await receiver.until(1);
  const [got] = receiver.got;
  assert.ok(got !== undefined);
  const files = ['verify.mjs', 'keys.txt', 'headers.txt', 'body.bin'].map((name) => join(folder, name));
  const [program = '', keys = '', headers = '', bytes = ''] = files;
  await writeFile(program, receiving.programs.find(({ language }) => language === 'JavaScript')?.source ?? '');
  await writeFile(keys, `${KEY}\n`);
  const lines = Object.entries(got.headers).map(([name, value]) => `${name}: ${String(value)}\n`);
  await writeFile(headers, lines.join(''));
  await writeFile(bytes, got.body);
  assert.match(await run(...files), /^verified msg_/);
  await writeFile(headers, lines.filter((line) => !line.startsWith('acme-shop-webhook-signature')).join(''));
  assert.match(await run(...files), /^refused: Acme-Shop-Webhook-Signature/);
  await writeFile(headers, lines.join(''));
  await writeFile(bytes, `${got.body.toString()} `);
  assert.match(await run(...files), /^refused: webhook-signature/);
});

test('the page on which a person creates a webhook links to the event types and to receiving', async () => {
  const list = await app.api('GET', `/stores/${app.storeId}/webhooks`);
  const { _links: links } = (await list.json()) as { _links: Record<string, { href: string }> };
  for (const [rel, path] of [
    ['svc:event_types', '/docs/events'],
    ['svc:receiving', '/docs/receiving'],
  ] as const) {
    assert.equal(links[rel]?.href, app.baseUrl + path);
    const response = await fetch(links[rel]?.href ?? '', { headers: { Accept: 'text/html' } });
    assert.match(await response.text(), /<h1>/, rel);
    assert.equal(response.status, 200, rel);
  }
});
