/** The documents of docs/ as pages of a server with names and settings of its own. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readPages, ROOT } from '../docs/page.ts';
import { startTestApp } from '../setup/app.ts';
import { faultsIn } from '../setup/html-validator.ts';

const env = {
  RELATION_PREFIX: 'acme',
  VERSION_HEADER: 'ACME-VERSION',
  WEBHOOK_HEADER_PREFIX: 'Acme',
  RETENTION_DAYS: '17',
  API_RATE_PER_SECOND: '7',
  SEARCH_LIMIT_MS: '5000',
  REQUIRE_WEBHOOK_HANDSHAKE: '1',
  MCP: '1',
};
const { baseUrl } = await startTestApp({ roles: ['serve'], env });

type Served = { status: number; text: string; ids: ReadonlySet<string>; targets: readonly string[] };

/** Returns a page with the values of its ids and links. */
async function read(path: string): Promise<Served> {
  const response = await fetch(baseUrl + path, { headers: { Accept: 'text/html' } });
  const text = await response.text();
  const valuesOf = (name: string): string[] =>
    Array.from(text.matchAll(new RegExp(` ${name}="([^"]*)"`, 'g')), ([, value = '']) => value);
  return { status: response.status, text, ids: new Set(valuesOf('id')), targets: valuesOf('href') };
}

const index = (await (await fetch(`${baseUrl}/docs`)).json()) as { _links: Record<string, { href: string }[]> };
const paths = (index._links['acme:docs_page'] ?? []).map(({ href }) => new URL(href).pathname);
const pages = new Map<string, Served>();
for (const path of ['/docs', '/docs/receiving', '/docs/events', ...paths]) pages.set(path, await read(path));

test('each document for users of a server is a valid page, which the entry links to', async () => {
  for (const name of ['oauth', 'webhooks', 'api', 'store-owners', 'operating'])
    assert.ok(paths.includes(`/docs/${name}`), name);
  for (const [path, { status, text }] of pages) {
    assert.equal(status, 200, path);
    assert.deepEqual(await faultsIn(text), [], path);
    if (path !== '/docs') assert.ok(pages.get('/docs')?.targets.includes(path), path);
  }
});

test('links between documents lead to a page of the server, and to a section that it has', () => {
  let count = 0;
  for (const [path, { targets }] of pages) {
    for (const target of targets) {
      const { pathname, hash, origin } = new URL(target, baseUrl + path);
      const page = pages.get(pathname);
      if (origin !== baseUrl || !pathname.startsWith('/docs')) continue;
      assert.ok(page !== undefined, `${path}: ${target}`);
      if (hash !== '') assert.ok(page.ids.has(decodeURIComponent(hash.slice(1))), `${path}: ${target}`);
      count += 1;
    }
  }
  assert.ok(count > 100, String(count));
});

test('documents have the names and the settings of the server', () => {
  for (const [path, { text }] of pages)
    assert.doesNotMatch(
      path === '/docs/operating' ? '' : text,
      /svc:|SERVICE-API-VERSION|Service-Webhook|[{]base_url|localhost:8080/,
      path,
    );
  assert.match(pages.get('/docs/api')?.text ?? '', /7 requests a second/);
  assert.match(pages.get('/docs/webhooks')?.text ?? '', /at most 17 days ago/);
  assert.match(pages.get('/docs/webhooks')?.text ?? '', /takes longer\s+than 5 s is refused/);
  assert.match(pages.get('/docs/collections')?.text ?? '', /<code>SEARCH_LIMIT_MS<\/code>, 5 s/);
  assert.match(pages.get('/docs/store-owners')?.text ?? '', /up to 17 days ago/);
  for (const path of ['/docs/listening', '/docs/platform'])
    assert.match(pages.get(path)?.text ?? '', /17 days \(<code>RETENTION_DAYS<\/code>\)/, path);
  assert.match(pages.get('/docs/webhooks')?.text ?? '', /<a href="\/rels\/recover"><code>acme:recover<\/code><\/a>/);
});

test('the receiver of the page expects the headers of the server', () => {
  const { text } = pages.get('/docs/receiving') ?? assert.fail();
  const program = Array.from(text.matchAll(/<pre class="copyable">([^]*?)<\/pre>/g), ([, code = '']) => code).find(
    (code) => code.includes('verifyDelivery({'),
  );
  assert.match(program ?? '', /headerPrefix: (?:'|&#39;)Acme(?:'|&#39;),/);
  assert.doesNotMatch(text, /Acme[^.]*\(the default\)/);
});

test('the table of settings keeps the defaults', () => {
  assert.match(
    pages.get('/docs/operating')?.text ?? '',
    /<code>VERSION_HEADER<\/code><\/td>\s*<td><code>SERVICE-API-VERSION<\/code>/,
  );
});

test('a page has a heading for each of its document, and a list of its sections', async () => {
  const headings = readPages().find(({ path }) => path === 'docs/webhooks.md')?.anchors ?? new Set();
  const { ids, targets } = pages.get('/docs/webhooks') ?? assert.fail();
  assert.deepEqual(
    [...headings].slice(1).filter((anchor) => !ids.has(anchor)),
    [],
  );
  for (const anchor of ['test-a-webhook', 'recovering-missed-events'])
    assert.ok(targets.includes(`#${anchor}`), anchor);
});

test('other files are not pages', async () => {
  for (const name of ['measurements', 'README', 'constructor', '..%2Fpackage', 'verify'])
    assert.equal((await read(`/docs/${name}`)).status, 404, name);
});

test('markup in a document is not markup of the page', async () => {
  const text = await readFile(join(ROOT, 'docs/xml.md'), 'utf8');
  assert.match(text, /^<resource /m);
  assert.doesNotMatch(pages.get('/docs/xml')?.text ?? '', /<resource/);
});

test('each document is Markdown, too, with the names of the server, and /llms.txt lists all of them', async () => {
  const markdownAt = async (address: string) => {
    const response = await fetch(address);
    const type = response.headers.get('content-type');
    assert.deepEqual([response.status, type], [200, 'text/markdown; charset=utf-8'], address);
    return response.text();
  };
  const listed = await markdownAt(`${baseUrl}/llms.txt`);
  assert.match(listed, /^# .+\n\n> .+/);
  assert.ok(listed.includes(`Agents connect to ${baseUrl}/mcp`));
  const addresses = Array.from(listed.matchAll(/\((\S+\.md)\)/g), ([, address = '']) => address);
  assert.ok(addresses.length >= paths.length);
  for (const address of addresses) {
    const text = await markdownAt(address);
    assert.match(text, /^# /);
    assert.doesNotMatch(text, /<!--|\{base_url\}|\bsvc:/, address);
    for (const [, to = ''] of text.matchAll(/\]\(([\w-]+\.md|\.\.[^)]*|[\w-]+\/[^)]*)(?:#[^)]*)?\)/g))
      assert.ok(addresses.includes(`${baseUrl}/docs/${to}`), `${address} leads to ${to}`);
    const source = await readFile(join(ROOT, 'docs', address.slice(address.lastIndexOf('/') + 1)), 'utf8');
    const blocks = (markdown: string): number => markdown.split('```').length;
    assert.ok(blocks(text) >= blocks(source) - 2, address);
  }
  for (const name of ['nothing', 'constructor', '../README', '%2e%2e%2fREADME'])
    assert.equal((await fetch(`${baseUrl}/docs/${name}.md`)).status, 404, name);
});
