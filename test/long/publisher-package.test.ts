/** packages/publisher as it is published. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { VERSION } from '#server/version.ts';
import { startTestApp } from '../setup/app.ts';
import { cleanups } from '../setup/cleanups.ts';
import { until } from '../setup/until.ts';
import { compile, installPackage, publishedFiles } from '../clients/receiver/packed.ts';

const PACKAGE = join(import.meta.dirname, '../../packages/publisher');
const PACKED_BYTES = 20_000;

const ends = cleanups();
const { folder, packed } = await installPackage('publisher', ends);
const readText = (name: string) => readFile(join(PACKAGE, name), 'utf8');

test('the package has no dependencies, the version of the project, JavaScript with types, and stays small', async (t) => {
  const [npm, jsr] = (await Promise.all(['package.json', 'jsr.json'].map(readText))).map(
    (text) => JSON.parse(text) as Record<string, unknown>,
  );
  assert.deepEqual(
    Object.keys(npm ?? {}).filter((name) => /dependencies/i.test(name)),
    [],
  );
  assert.deepEqual([npm?.['version'], npm?.['publishConfig']], [VERSION, { access: 'public', provenance: true }]);
  for (const name of ['name', 'version', 'license']) assert.deepEqual(jsr?.[name], npm?.[name], name);
  assert.deepEqual(jsr?.['exports'], { '.': './src/publisher.ts' });
  assert.ok((await readText('CHANGELOG.md')).includes(`\n## ${VERSION}`));
  const paths = packed.files.map(({ path }) => path);
  const modules = paths.flatMap((path) => /^dist\/([^/]+)\.js$/.exec(path)?.[1] ?? []);
  assert.ok(modules.includes('publisher'));
  assert.deepEqual(paths.toSorted(), publishedFiles(modules));
  t.diagnostic(`${packed.size} bytes packed, ${packed.unpackedSize} unpacked`);
  assert.ok(packed.size < PACKED_BYTES, `${packed.size} bytes packed`);
});

test('its types work with the module resolution of Node and of bundlers', async () => {
  const use = `import { createPublisher, PublishError, type PublishedEvent } from '@halcyon/publisher';
    const publisher = createPublisher({ baseUrl: 'https://a.example', clientId: 'a', clientSecret: 'b' });
    export const publish = (): Promise<PublishedEvent> =>
      publisher.publish(986, { event: 'transaction/created', resource: { id: 7 } });
    export const isUnknown = (error: unknown): boolean => error instanceof PublishError && error.mayBePublished;\n`;
  await writeFile(join(folder, 'consumer.ts'), use);
  const node = { module: 'nodenext', lib: ['es2022', 'dom'], types: [] };
  const bundler = { ...node, module: 'esnext', moduleResolution: 'bundler' };
  for (const settings of [node, bundler]) assert.equal(await compile(folder, settings, ['consumer.ts']), '');
  await writeFile(join(folder, 'wrong.ts'), use.replace('error.mayBePublished', 'error.status'));
  assert.match(await compile(folder, node, ['wrong.ts']), /wrong\.ts.*TS2322/);
});

test('the program of the README publishes', async () => {
  const app = await startTestApp({ roles: ['serve'] });
  const client = await createClient(app.sql, { name: 'Shop', redirectUris: [], trusted: true, now: app.clock.now() });
  Object.assign(process.env, {
    HALCYON_URL: app.baseUrl,
    HALCYON_CLIENT_ID: client.client_id,
    HALCYON_CLIENT_SECRET: client.client_secret,
  });
  const settled: unknown[] = [];
  const changes = ['transaction/created', 'transaction/made', 'transaction/captured'].map((event, id) => ({
    storeId: app.storeId,
    event: { event, resource: { id } },
  }));
  Object.assign(globalThis, {
    changes,
    onPublished: ({ event }: { event: string }) => settled.push(event),
    onRejected: ({ code }: { code: string }) => settled.push(code),
  });
  const code = /```js\n(.*?)```/s.exec(await readText('README.md'))?.[1];
  await writeFile(join(folder, 'publish.js'), code ?? '');
  await import(pathToFileURL(join(folder, 'publish.js')).href);
  await until(
    async () => settled.length,
    (count) => count === 3,
  );
  assert.deepEqual(settled, ['refused', 'transaction/created', 'transaction/captured']);
});
