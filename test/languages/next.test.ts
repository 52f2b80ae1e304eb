/** The route handler of packages/receiver in a real Next, which is too large (340 MB) for the dependencies of the project. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { VERSION } from '#server/version.ts';
import { installPacked, PACKAGE } from '../clients/receiver/packed.ts';
import { KEY, sent } from '../clients/receiver/signed-delivery.ts';
import { cleanups } from '../setup/cleanups.ts';

const PACKAGES = ['next@16.4.6', 'react@19.2.0', 'react-dom@19.2.0'];
const QUEUE = "const queue = { add: (event, { id }) => console.log('queued', event, id) };\n";
const run = promisify(execFile);
const ends = cleanups();

async function installNext(): Promise<string> {
  const folder = join((await installPacked(ends)).folder, 'next');
  await mkdir(join(folder, 'app/hook'), { recursive: true });
  await writeFile(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }));
  await run(
    'npm',
    ['install', '--no-audit', '--no-fund', ...PACKAGES, join(folder, `../halcyon-receiver-${VERSION}.tgz`)],
    {
      cwd: folder,
    },
  );
  const snippet =
    /```js next\n(.*?)```/s.exec(await readFile(join(PACKAGE, 'README.md'), 'utf8'))?.[1] ?? assert.fail();
  await writeFile(join(folder, 'app/hook/route.js'), snippet.replace('\n\n', `\n\n${QUEUE}`));
  const layout = 'export default function Layout({ children }) { return <html><body>{children}</body></html>; }\n';
  await writeFile(join(folder, 'app/layout.js'), layout);
  return folder;
}

/** Builds and starts the app on any free port. */
async function startNext(): Promise<{ url: string; lines: string[] }> {
  const folder = await installNext();
  const env = { PATH: process.env['PATH'] ?? '', HOME: folder, NEXT_TELEMETRY_DISABLED: '1', WEBHOOK_KEY: KEY };
  const program = join(folder, 'node_modules/next/dist/bin/next');
  await run(process.execPath, [program, 'build'], { cwd: folder, env });
  const child = spawn(process.execPath, [program, 'start', '--port', '0', '--hostname', '127.0.0.1'], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const closed = once(child, 'close');
  ends.after(async () => {
    child.kill('SIGKILL');
    await closed;
  });
  const lines: string[] = [];
  const url = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout })
      .on('line', (line) => {
        lines.push(line);
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0];
        if (found !== undefined) resolve(`${found}/hook`);
      })
      .on('close', () => reject(new Error(lines.join('\n'))));
  });
  return { url, lines };
}

test('the snippet for Next in the README accepts genuine deliveries and rejects others in a built app', async () => {
  const { url, lines } = await startNext();
  const post = async (headers: Record<string, string>, body: Uint8Array) => {
    const response = await fetch(url, { method: 'POST', headers, body: new Uint8Array(body) });
    const answer = await response.text();
    return [response.status, answer === '' ? undefined : (JSON.parse(answer) as { error: string }).error];
  };
  for (const isEncrypted of [false, true]) {
    const { headers, body } = sent({ isEncrypted, now: new Date() });
    assert.deepEqual(await post(headers, body), [204, undefined]);
    assert.deepEqual(await post(headers, Buffer.concat([body, Buffer.from(' ')])), [401, 'bad_signature']);
  }
  const old = sent();
  assert.equal((await post(old.headers, old.body))[0], 401);
  const large = sent({ body: Buffer.alloc(4 * 1024 * 1024 + 1, 'x'), now: new Date() });
  assert.deepEqual(await post(large.headers, large.body), [413, 'too_large']);
  assert.deepEqual(
    lines.filter((line) => line.startsWith('queued')),
    ['queued transaction/created 70012', 'queued transaction/created 70012'],
  );
});
