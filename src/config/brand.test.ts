import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { brandColor, brandName, PAPERS, readLogo, contrastOf, leastContrast, TEXT_CONTRAST } from './brand.ts';
import { ConfigError } from '#core/config-error.ts';

const NAME = 'BRAND_X';
const color = (value: string) => brandColor(value, NAME);

/** Returns the message of the `ConfigError` that is thrown. */
function refusal(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof ConfigError);
    return error.message;
  }
  return assert.fail('it was accepted');
}

test('the contrast is that of WCAG', () => {
  assert.equal(contrastOf('#000000', '#ffffff'), 21);
  assert.equal(contrastOf('#123456', '#123456'), 1);
  assert.equal(contrastOf('#767676', '#ffffff').toFixed(2), '4.54');
  assert.equal(contrastOf('#ffffff', '#777777').toFixed(2), '4.48');
});

test('any colour is accepted with enough contrast in both modes, or refused with one that is accepted', () => {
  const anyColor = fc.integer({ min: 0, max: 0xffffff }).map((value) => `#${value.toString(16).padStart(6, '0')}`);
  fc.assert(
    fc.property(anyColor, (value) => {
      const isReadable = leastContrast(value, PAPERS.light) >= TEXT_CONTRAST;
      const suggested = isReadable
        ? value
        : (/(#[0-9a-f]{6}) is the nearest/.exec(refusal(() => color(value)))?.[1] ?? '');
      const accent = color(suggested);
      assert.ok(accent !== undefined);
      assert.ok(leastContrast(accent.light, PAPERS.light) >= TEXT_CONTRAST, accent.light);
      assert.ok(leastContrast(accent.dark, PAPERS.dark) >= TEXT_CONTRAST, accent.dark);
    }),
  );
});

test('a colour with enough contrast is not changed', () => {
  assert.deepEqual(color('#0B5FB0').light, '#0b5fb0');
  for (const value of ['blue', '#fff', '0b5fb0', '#0b5fb0;}', '#0b5fb000'])
    assert.match(
      refusal(() => color(value)),
      /BRAND_X is .*#0b5fb0/,
      value,
    );
});

test('a name is one short line', () => {
  const read = (value: string) => brandName(value, NAME);
  assert.deepEqual([read('  Shopwerk  '), read('株式会社')], ['Shopwerk', '株式会社']);
  for (const value of [' ', 'a\nb', 'a\u202Eb', 'a\u2028b', 'x'.repeat(41)]) refusal(() => read(value));
});

test('a logo is a small picture, whatever its name is', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-brand-'));
  t.after(() => rm(folder, { recursive: true }));
  const put = async (name: string, body: string | Buffer) => (await writeFile(join(folder, name), body), name);
  const png = Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), Buffer.alloc(20)]);
  const logo = readLogo(await put('logo.svg', png), folder);
  assert.match(logo?.file ?? '', /^[0-9a-f]{16}\.png$/);
  assert.equal(logo?.mediaType, 'image/png');
  assert.equal(readLogo(undefined, folder), undefined);
  const refused = [
    await put('script.png', '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'),
    await put('large.png', Buffer.concat([png, Buffer.alloc(64 * 1024)])),
    'missing.png',
    '.',
  ];
  for (const path of refused)
    assert.match(
      refusal(() => readLogo(path, folder)),
      /^BRAND_LOGO is /,
      path,
    );
});
