/** Logos: which files may be uploaded, how they are served, and what they cannot do. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBrowser, startAuthorizationServer } from './oauth-server.ts';
import { hiddenIn, newApp, submit } from './page-forms.ts';

const server = await startAuthorizationServer();
const { browser, sql } = server;

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');
const GIF = hex('474946383961 0100 0100 800000 000000ffffff 2c00000000010001000002024401003b');
const PNG = hex(
  '89504e470d0a1a0a 0000000d 49484452 00000001 00000001 08060000001f15c489 0000000b49444154789c6360000200000500017a5eab3f 0000000049454e44ae426082',
);
const JPEG = hex(
  `ffd8 ffdb0043 00${'03'.repeat(64)} ffc9000b 08 0001 0001 01 011100 ffcc0006 00101005 ffda0008 0101 00003f00 d2cf20 ffd9`,
);
const JPEG_SIDES = '0800010001';
const WEBP = Buffer.concat([
  hex('52494646 1a000000'),
  Buffer.from('WEBPVP8L'),
  hex('0d0000002f00000010071011118888fe0700'),
]);

function webp(...chunks: readonly Buffer[]): Buffer {
  const body = Buffer.concat([Buffer.from('WEBP'), ...chunks]);
  const head = Buffer.from('RIFF\0\0\0\0');
  head.writeUInt32LE(body.length, 4);
  return Buffer.concat([head, body]);
}

async function upload(path: string, bytes: Uint8Array, options: { type?: string; nonce?: string; site?: string } = {}) {
  const body = new FormData();
  const { nonce = hiddenIn(await browser.open(path), `${path}/logo`)['nonce'] ?? '' } = options;
  body.set('nonce', nonce);
  body.set('logo', new Blob([Buffer.from(bytes)], { type: options.type ?? 'image/png' }), 'logo.png');
  const response = await fetch(`${server.origin}${path}/logo`, {
    method: 'POST',
    redirect: 'manual',
    headers: { Cookie: browser.cookie() ?? '', 'Sec-Fetch-Site': options.site ?? 'same-origin' },
    body,
  });
  return { status: response.status, text: await response.text() };
}

const logoOf = (clientId: string): Promise<Response> => fetch(`${server.origin}/clients/${clientId}/logo`);

for (const [type, bytes] of Object.entries({ gif: GIF, png: PNG, jpeg: JPEG, webp: WEBP })) {
  test(`a logo is served with the type of its bytes, whatever its sender states: ${type}`, async () => {
    const { clientId, path } = await newApp(browser);
    assert.equal((await upload(path, bytes, { type: 'text/html' })).status, 303);
    const response = await logoOf(clientId);
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('content-type'), `image/${type}`);
    assert.deepEqual(Buffer.from(await response.arrayBuffer()), bytes);
  });
}

test('a logo opened as a page can run nothing', async () => {
  const { clientId, path } = await newApp(browser);
  await upload(path, GIF);
  const { headers } = await logoOf(clientId);
  assert.equal(headers.get('content-security-policy'), "default-src 'none'; sandbox");
  assert.equal(headers.get('x-content-type-options'), 'nosniff');
});

test('the address of a logo changes with the picture, so that it may be cached', async () => {
  const { clientId, path } = await newApp(browser);
  await upload(path, GIF);
  const addressIn = async () => /src="(\/clients\/[^"]*)"/.exec((await browser.open(path)).text)?.[1] ?? '';
  const first = await addressIn();
  assert.match(first, new RegExp(`^/clients/${clientId}/logo\\?v=\\d+$`));
  assert.equal((await browser.open(first)).headers.get('cache-control'), 'public, max-age=86400');
  server.wait(1_000);
  await upload(path, PNG);
  assert.notEqual(await addressIn(), first);
});

test('a missing logo, an unknown client and a malformed id are 404', async () => {
  const { clientId, path } = await newApp(browser);
  for (const id of [clientId, 'unknown', '%00', '..%2f']) assert.equal((await logoOf(id)).status, 404, id);
  await upload(path, GIF);
  assert.equal((await logoOf(clientId)).status, 200);
  assert.equal((await submit(browser, path, `${path}/remove-logo`)).status, 303);
  assert.equal((await logoOf(clientId)).status, 404);
});

const page = Buffer.from('<html><script>alert(1)</script></html>');
const REFUSED: Readonly<Record<string, Buffer>> = {
  nothing: Buffer.alloc(0),
  'an SVG': Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'),
  'a page': page,
  'a PDF': Buffer.from('%PDF-1.7\n'),
  'a PNG with a page behind it': Buffer.concat([PNG, page]),
  'a GIF with a page behind it': Buffer.concat([GIF, page]),
  'a PNG with a page and another end behind it': Buffer.concat([PNG, page, PNG.subarray(-12)]),
  'a GIF with a page and another end behind it': Buffer.concat([GIF, page, GIF.subarray(-1)]),
  'a JPEG with a page and another end behind it': Buffer.concat([JPEG, page, JPEG.subarray(-2)]),
  'a JPEG of nothing but a page': hex(`ffd8ff${page.toString('hex')}504b0304ffd9`),
  'a JPEG of 60,000 pixels a side': Buffer.from(JPEG.toString('hex').replace(JPEG_SIDES, '08ea60ea60'), 'hex'),
  'a WebP of 16,384 pixels a side': Buffer.from(WEBP.toString('hex').replace('2f00000010', '2fffffff1f'), 'hex'),
  'a WebP with an unknown chunk': webp(WEBP.subarray(12), Buffer.from('HTML'), hex('04000000'), page.subarray(0, 4)),
  'a JPEG with a page behind it': Buffer.concat([JPEG, page]),
  'a WebP with a page behind it': Buffer.concat([WEBP, page]),
  'a script that begins and ends like a GIF': Buffer.from('GIF89a=1;alert(1);'),
  'a page in front of a PNG': Buffer.concat([page, PNG]),
  'a PNG of a million pixels a side': Buffer.from(
    PNG.toString('hex').replace('0000000100000001', '000f4240000f4240'),
    'hex',
  ),
  'the beginning of a PNG': PNG.subarray(0, 20),
  'more than 256 KiB': Buffer.concat([PNG.subarray(0, -12), Buffer.alloc(256 * 1024), PNG.subarray(-12)]),
};
for (const [what, bytes] of Object.entries(REFUSED)) {
  test(`rejected, with the reason at the field: ${what}`, async () => {
    const { clientId, path } = await newApp(browser);
    const { status, text } = await upload(path, bytes);
    assert.equal(status, 422);
    assert.match(text, /aria-describedby="logo-hint logo-fault"\s+aria-invalid="true"/);
    assert.equal((await logoOf(clientId)).status, 404);
  });
}

test('256 KiB are accepted', async () => {
  const { path } = await newApp(browser);
  const filler = Buffer.alloc(256 * 1024 - PNG.length);
  filler.writeUInt32BE(filler.length - 12, 0);
  filler.write('teXt', 4);
  assert.equal((await upload(path, Buffer.concat([PNG.subarray(0, -12), filler, PNG.subarray(-12)]))).status, 303);
});

test('a body that is no form, or too large for one, is rejected', async () => {
  const { path } = await newApp(browser);
  const headers = { Cookie: browser.cookie() ?? '', 'Sec-Fetch-Site': 'same-origin' };
  const send = async (body: string | Buffer, type: string) =>
    (
      await fetch(`${server.origin}${path}/logo`, {
        method: 'POST',
        headers: { ...headers, 'Content-Type': type },
        body,
      })
    ).status;
  assert.equal(await send('--x', 'multipart/form-data; boundary=y'), 400);
  assert.equal(await send('{}', 'application/json'), 400);
  assert.equal(await send(Buffer.alloc(1024 * 1024 + 1), 'multipart/form-data; boundary=y'), 413);
});

test('the body of a caller who may not upload is not read', async () => {
  const { path } = await newApp(browser);
  const send = async (cookie: string | undefined) => {
    const headers = { 'Sec-Fetch-Site': 'same-origin', 'Content-Type': 'multipart/form-data; boundary=y' };
    const own = cookie === undefined ? {} : { Cookie: cookie };
    const body = 'no multipart';
    return fetch(`${server.origin}${path}/logo`, {
      method: 'POST',
      redirect: 'manual',
      headers: { ...headers, ...own },
      body,
    });
  };
  const bob = createBrowser(server.origin);
  await bob.signIn(server.bob);
  assert.equal((await send(undefined)).headers.get('location'), '/sign-in?return_to=%2Faccount');
  assert.equal((await send(bob.cookie())).status, 404);
  assert.equal((await send(browser.cookie())).status, 400);
});

test('a picture from another site, or without the nonce, is rejected', async () => {
  const { clientId, path } = await newApp(browser);
  assert.equal((await upload(path, GIF, { site: 'cross-site' })).status, 403);
  assert.equal((await upload(path, GIF, { nonce: 'x' })).status, 403);
  assert.equal((await logoOf(clientId)).status, 404);
});

test('a new logo makes a verified app unverified', async () => {
  const { clientId, path } = await newApp(browser);
  await sql`update client set is_verified = true where client_id = ${clientId}`;
  await upload(path, GIF);
  const [row] = await sql`select is_verified from client where client_id = ${clientId}`;
  assert.deepEqual(row, { is_verified: false });
});
