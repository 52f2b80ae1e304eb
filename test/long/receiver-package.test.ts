/** packages/receiver as it is published, and its examples as processes that the engine delivers to. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { createAdaptorServer } from '@hono/node-server';
import { eventTypes } from '#catalog/event-types.ts';
import { renderHal } from '#hypermedia/hal.ts';
import type * as receiver from '#receiver';
import { VERSION } from '#server/version.ts';
import { cleanups } from '../setup/cleanups.ts';
import { KEY, startEngine } from '../setup/engine.ts';
import { resolverOf, startNameServer } from '../setup/name-server.ts';
import { startReceiver, type Got } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { compile, installPacked, PACKAGE, publishedFiles } from '../clients/receiver/packed.ts';
import { NOW, sent } from '../clients/receiver/signed-delivery.ts';

const EXAMPLES = ['node', 'express', 'fastify', 'hono'];
type FetchCallback = (request: Request) => Promise<Response>;
const SUBPATHS = ['express', 'fastify', 'hono', 'next'];
const PACKED_BYTES = 25_000;

const ends = cleanups();
const { folder, packed } = await installPacked(ends);

test('the package has no dependencies, the version of the project, JavaScript with types, and stays small', async (t) => {
  const manifest = JSON.parse(await readFile(join(PACKAGE, 'package.json'), 'utf8')) as Record<string, unknown>;
  assert.deepEqual(
    Object.keys(manifest).filter((name) => /dependencies/i.test(name)),
    [],
  );
  assert.equal(manifest['version'], VERSION);
  const paths = packed.files.map(({ path }) => path).toSorted();
  const modules = paths.flatMap((path) => /^dist\/([^/]+)\.js$/.exec(path)?.[1] ?? []);
  assert.ok(modules.includes('receiver'));
  for (const name of SUBPATHS) assert.ok(modules.includes(name), name);
  assert.deepEqual(paths, publishedFiles(modules));
  for (const name of modules) {
    const code = await readFile(join(folder, 'node_modules/@halcyon/receiver/dist', `${name}.js`), 'utf8');
    for (const [, from = ''] of code.matchAll(/\bfrom '([^']+)'/g)) assert.match(from, /^\.\/\w+\.js$/);
  }
  t.diagnostic(`${packed.size} bytes packed, ${packed.unpackedSize} unpacked`);
  assert.ok(packed.size < PACKED_BYTES, `${packed.size} bytes packed`);
});

test('npm and JSR publish the same version and entry points, npm with provenance, and the changelog has the version', async () => {
  const readJson = async (name: string) =>
    JSON.parse(await readFile(join(PACKAGE, name), 'utf8')) as Record<
      string,
      Record<string, { import: { default: string } }>
    >;
  const [npm, jsr] = await Promise.all([readJson('package.json'), readJson('jsr.json')]);
  for (const name of ['name', 'version', 'license']) assert.deepEqual(jsr[name], npm[name], name);
  const sources = Object.entries(npm['exports'] ?? {}).map(
    ([
      path,
      {
        import: { default: file },
      },
    ]) => [path, file.replace('./dist/', './src/').replace('.js', '.ts')],
  );
  assert.deepEqual(jsr['exports'], Object.fromEntries(sources));
  assert.deepEqual(Object.keys(npm['exports'] ?? {}), ['.', ...SUBPATHS.map((name) => `./${name}`)]);
  assert.deepEqual(npm['publishConfig'], { access: 'public', provenance: true });
  assert.ok((await readFile(join(PACKAGE, 'CHANGELOG.md'), 'utf8')).includes(`\n## ${VERSION}`));
});

test('the packed package verifies and decrypts as JavaScript', async () => {
  const entry = pathToFileURL(join(folder, 'node_modules/@halcyon/receiver/dist/receiver.js'));
  const { verifyDelivery } = (await import(entry.href)) as Pick<typeof receiver, 'verifyDelivery'>;
  const now = () => NOW;
  const delivery = await verifyDelivery({ ...sent({ isEncrypted: true }), keys: [KEY], now });
  assert.deepEqual(delivery.json(), { id: 70012, name: 'Zoë' });
  await assert.rejects(verifyDelivery({ ...sent(), body: '{}', keys: [KEY], now }), { code: 'bad_signature' });
});

test('its types work with the module resolution of Node and of bundlers, with and without a DOM', async () => {
  const use = `import { verifyDelivery, WebhookError, type Delivery } from '@halcyon/receiver';
    export const take = async (headers: Record<string, string | string[] | undefined>, body: Uint8Array): Promise<Delivery> =>
      verifyDelivery({ headers, body, keys: [undefined, 'key'], headerPrefix: undefined });
    export const status = (error: unknown): number => (error instanceof WebhookError ? error.status : 500);\n`;
  await writeFile(join(folder, 'consumer.ts'), use);
  const node = { module: 'nodenext', lib: ['es2022'], types: [] };
  const bundler = { module: 'esnext', moduleResolution: 'bundler', lib: ['es2022', 'dom'], types: [] };
  for (const settings of [node, bundler]) assert.equal(await compile(folder, settings, ['consumer.ts']), '');
  await writeFile(join(folder, 'wrong.ts'), use.replace('status : 500', 'code : 500'));
  assert.match(await compile(folder, node, ['wrong.ts']), /wrong\.ts.*TS2322/);
  const all = { module: 'nodenext', types: ['node'], skipLibCheck: true };
  assert.equal(await compile(folder, all, ['examples']), '');
});

test('the types of bodies accept every example of the event catalogue, and guarantee what it guarantees', async () => {
  const naming = { baseUrl: 'http://localhost:8080', relationPrefix: 'svc' };
  const bodies = eventTypes(naming).flatMap(({ event, examples }) =>
    examples.map(({ document }) => `{ event: '${event}', payload: ${renderHal(document, naming)} },`),
  );
  const head = "import type { Payloads, WebhookEvent } from '@halcyon/receiver';\n";
  await writeFile(
    join(folder, 'bodies.ts'),
    `${head}export const events: WebhookEvent[] = [\n${bodies.join('\n')}\n];\n`,
  );
  const settings = { module: 'nodenext', lib: ['es2022'], types: [] };
  assert.equal(await compile(folder, settings, ['bodies.ts']), '');
  const wrong = [
    "export const of = (entry: Payloads['changelog/created']): boolean => entry.actor === 'robot';",
    "export const id = (one: Payloads['transaction/created']): number => one.id;",
    "export const none: Payloads['customer/created'] = { id: 1 };",
  ];
  for (const [at, line] of wrong.entries()) {
    await writeFile(join(folder, `wrong-body-${at}.ts`), head.replace(', WebhookEvent', '') + line);
    assert.match(await compile(folder, settings, [`wrong-body-${at}.ts`]), /TS2367|TS2322|TS2741/, line);
  }
});

test("the types of an operator's own bodies compile, and guarantee what the schema guarantees", async () => {
  const invoice = {
    title: 'An invoice',
    description: 'A bill. */ It is paid later.',
    events: { paid: { when: 'It is paid. */', since: '1' } },
    relations: { customer: {}, lines: {} },
    schema: {
      required: ['state', 'total', 'lines'],
      properties: {
        state: { enum: ["it's", 'open', 3, null, true, { a: 1 }] },
        kind: { const: 'bill\\' },
        'odd name': true,
        total: { type: ['number', 'null'], description: '*/' },
        lines: { type: 'array', items: { type: 'object', properties: { sku: { $ref: '#/$defs/sku' } } } },
        codes: { type: 'array', items: false },
      },
      anyOf: [{ required: ['kind'] }, true],
      $defs: { sku: { type: 'string' } },
    },
    example: { id: 1, state: 'open', total: 5, lines: [], kind: 'bill\\', _embedded: { lines: [{ sku: 'A' }] } },
  };
  const path = join(folder, 'events.json');
  await writeFile(path, JSON.stringify({ resources: { invoice } }));
  const script = join(PACKAGE, '../../scripts/payload-types.ts');
  const { stdout } = await promisify(execFile)(process.execPath, [script, '--events-file', path]);
  await writeFile(join(folder, 'own-payloads.ts'), stdout);
  const head = "import type { Payloads, WebhookEvent } from './own-payloads.ts';\nexport type Any = WebhookEvent;\n";
  const settings = { module: 'nodenext', lib: ['es2022'], types: [], allowImportingTsExtensions: true, noEmit: true };
  const right =
    "export const total = (one: Payloads['invoice/paid']): number | null => one.state === 'open' ? one.total : 0;";
  await writeFile(join(folder, 'own.ts'), head + right);
  assert.equal(await compile(folder, settings, ['own.ts']), '');
  await writeFile(join(folder, 'own-wrong.ts'), head + right.replace('number | null', 'number'));
  assert.match(await compile(folder, settings, ['own-wrong.ts']), /TS2322/);
});

test('the first receiver of the documents accepts a genuine delivery, once, and reports what is wrong with others', async () => {
  const pages = [join(PACKAGE, 'README.md'), join(PACKAGE, '../../docs/receiving.md')];
  const [code, shown] = await Promise.all(
    pages.map(async (page) => /```js\n(.*?)```/s.exec(await readFile(page, 'utf8'))?.[1] ?? ''),
  );
  assert.equal(code, shown);
  const queued: unknown[] = [];
  Object.assign(globalThis, { queue: { add: (...given: unknown[]) => queued.push(given) } });
  process.env['WEBHOOK_KEY'] = KEY;
  await writeFile(join(folder, 'hook.js'), code ?? '');
  const { default: hook } = (await import(pathToFileURL(join(folder, 'hook.js')).href)) as {
    default: (request: Request) => Promise<Response>;
  };
  const { headers, body } = sent({ now: new Date() });
  const post = async (content: string) =>
    (await hook(new Request('http://localhost/hook', { method: 'POST', headers, body: content }))).status;
  const genuine = Buffer.from(body).toString();
  assert.deepEqual([await post(genuine), await post(genuine), await post(`${genuine} `)], [204, 204, 401]);
  assert.deepEqual(queued, [['transaction/created', { id: 70012, name: 'Zoë' }]]);
});

/** Serves the app of a snippet, which exports `app` or, for Next, `POST`. */
async function serveSnippet(name: string): Promise<string> {
  const code = new RegExp(`\`\`\`js ${name}\\n(.*?)\`\`\``, 's').exec(
    await readFile(join(PACKAGE, 'README.md'), 'utf8'),
  )?.[1];
  const file = join(folder, `readme-${name}.js`);
  await writeFile(file, `${code ?? assert.fail(name)}${name === 'next' ? '' : 'export { app };\n'}`);
  const { app, POST } = (await import(pathToFileURL(file).href)) as {
    app: RequestListener & { fetch: FetchCallback; ready: () => Promise<unknown>; server: Server };
    POST: FetchCallback;
  };
  if (name === 'fastify') await app.ready();
  const servers: Readonly<Record<string, () => Server>> = {
    express: () => createServer(app),
    fastify: () => app.server,
    hono: () => createAdaptorServer({ fetch: app.fetch }) as Server,
    next: () => createAdaptorServer({ fetch: POST }) as Server,
  };
  const server = servers[name]?.() ?? assert.fail(name);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ends.after(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return String((server.address() as AddressInfo).port);
}

for (const name of SUBPATHS)
  test(`the snippet for ${name} in the README accepts a genuine delivery and rejects a changed one`, async (t) => {
    t.mock.method(console, 'error', () => undefined);
    const queued: unknown[] = [];
    Object.assign(globalThis, { queue: { add: (...given: unknown[]) => queued.push(given) } });
    process.env['WEBHOOK_KEY'] = KEY;
    const port = await serveSnippet(name);
    for (const isEncrypted of [false, true]) {
      const { headers, body } = sent({ isEncrypted, now: new Date() });
      const post = async (content: Uint8Array) =>
        (await fetch(`http://127.0.0.1:${port}/hook`, { method: 'POST', headers, body: new Uint8Array(content) }))
          .status;
      assert.deepEqual([await post(body), await post(Buffer.concat([body, Buffer.from(' ')]))], [204, 401]);
    }
    const delivered = ['transaction/created', { id: 70012, name: 'Zoë' }];
    assert.deepEqual(queued, [delivered, delivered]);
  });

/** An example as a process of its own, on any free port. */
async function startExample(name: string) {
  const child = spawn(process.execPath, [join(folder, 'examples', `${name}.ts`)], {
    env: { PATH: process.env['PATH'] ?? '', WEBHOOK_KEY: KEY, PORT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [complaints, closed] = [text(child.stderr), once(child, 'close')];
  ends.after(async () => {
    child.kill('SIGKILL');
    await closed;
  });
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  const port = await until(
    async () => /port: (\d+)/.exec(lines.join(' '))?.[1],
    (found) => found !== undefined || child.exitCode !== null,
  );
  if (port === undefined) throw new Error(`${name} ended: ${await complaints}`);
  return { name, port, events: () => lines.filter((line) => line.startsWith('transaction/')) };
}

/** The same request once more, or changed; `fetch` sets the length and connects by itself. */
async function postAgain(port: string, { headers, body }: Got): Promise<number> {
  const {
    host: _host,
    connection: _connection,
    'content-length': _length,
    ...rest
  } = headers as Record<string, string>;
  const init = { method: 'POST', headers: rest, body: new Uint8Array(body) };
  return (await fetch(`http://127.0.0.1:${port}/hook`, init)).status;
}

test('each example accepts deliveries of the engine, plain and encrypted, once; a changed one is answered 401', async () => {
  const names = await startNameServer();
  names.say(() => ({ addresses: ['127.0.0.1'] }));
  const [engine, recorder] = [await startEngine({ resolve: resolverOf(names) }), await startReceiver()];
  const examples = await Promise.all(EXAMPLES.map(startExample));
  const urls = examples.flatMap(({ port }) => [
    `http://127.0.0.1:${port}/hook`,
    `http://shop.example.com:${port}/hook`,
  ]);
  for (const url of [...urls, recorder.url]) await engine.addWebhook(url);
  const worker = await engine.startWorker();
  await engine.publish([70012], worker);
  await recorder.until(1);
  const [got] = recorder.got;
  assert.ok(got !== undefined);
  for (const { name, port, events } of examples) {
    const two = await until(
      async () => events().length,
      (count) => count >= 2,
    );
    assert.equal(two, 2, name);
    assert.deepEqual([await postAgain(port, got), await postAgain(port, got)], [204, 204], name);
    assert.equal(await postAgain(port, { ...got, body: Buffer.concat([got.body, Buffer.from(' ')]) }), 401, name);
    // It prints before it answers, and to a pipe, which is written synchronously.
    assert.equal(
      await until(
        async () => events().length,
        (count) => count >= 3,
      ),
      3,
      `${name} dropped the duplicate`,
    );
    for (const line of events()) assert.match(line, /^transaction\/created \{/);
  }
  const ended = await until(
    () => engine.sql<{ state: string }[]>`select state from delivery_done`,
    (rows) => rows.length === urls.length + 1,
  );
  assert.deepEqual(new Set(ended.map(({ state }) => state)), new Set(['successful']));
});
