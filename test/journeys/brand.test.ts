/** The operator's name, logo and colour are on every page, and the policy of each page allows its style. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { startAuthorizationServer } from '../security/oauth-server.ts';

/** One red pixel. */
const PICTURE = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
  'base64',
);
const folder = await mkdtemp(join(tmpdir(), 'halcyon-brand-'));
after(() => rm(folder, { recursive: true }));
const logo = join(folder, 'logo.png');
await writeFile(logo, PICTURE);

const { origin, browser, alpha, asking } = await startAuthorizationServer({
  BRAND_NAME: 'Shop & Werk',
  BRAND_LOGO: logo,
  BRAND_COLOR: '#7a1fa2',
});

const consent = `/authorize?${new URLSearchParams(asking()).toString()}`;
const PAGES: readonly (readonly [name: string, path: string, isSignedIn: boolean])[] = [
  ['the front page', '/', false],
  ['sign-in', '/sign-in', false],
  ['consent', consent, true],
  ['account', '/account', true],
  ['webhooks', `/stores/${alpha}/webhooks`, true],
  ['an error', '/nothing', true],
];

for (const [name, path, isSignedIn] of PAGES) {
  test(`${name}: the operator's name, logo and colour`, async () => {
    const Cookie = browser.cookie() ?? '';
    const response = await fetch(origin + path, { headers: { Accept: 'text/html', ...(isSignedIn && { Cookie }) } });
    const text = await response.text();
    assert.match(text, /<title>[^<]* · Shop &amp; Werk<\/title>/);
    const [, source = ''] =
      /<span class="brand"><img src="([^"]*)" alt="" height="32" \/>Shop &amp; Werk</.exec(text) ?? [];
    assert.match(source, /^\/assets\/[0-9a-f]{16}\.png$/);
    assert.match(text, /--accent:#7a1fa2}/);
    const [, style = ''] = /<style>([^]*?)<\/style>/.exec(text) ?? [];
    const hash = createHash('sha256').update(style).digest('base64');
    const policy = response.headers.get('content-security-policy') ?? '';
    assert.ok(policy.includes(`style-src 'sha256-${hash}';`), policy);
    assert.match(policy, /img-src 'self';/);
  });
}

test('the logo is served by Halcyon itself, as a picture', async () => {
  const page = await (await fetch(`${origin}/sign-in`)).text();
  const [, path = ''] = /<img src="([^"]*)"/.exec(page) ?? [];
  const response = await fetch(origin + path);
  assert.deepEqual(Buffer.from(await response.arrayBuffer()), PICTURE);
  assert.equal(response.headers.get('content-type'), 'image/png');
  assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
  assert.match(response.headers.get('cache-control') ?? '', /immutable/);
});
