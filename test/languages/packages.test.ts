/** The packages as a stranger installs them: from a running server, into projects of every kind of module. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { VERSION } from '#server/version.ts';
import { copyPackages } from '../clients/receiver/packed.ts';
import { startTestApp } from '../setup/app.ts';
import { cleanups } from '../setup/cleanups.ts';
import { makePythonEnvironment, succeed } from './programs.ts';

const NODE_PACKAGES = ['@arethetypeswrong/cli@0.18.5', 'jest@30.5.0', 'typescript@5.9.3'];
const SUBPATHS = ['', '/express', '/fastify', '/hono', '/next'];

const root = await copyPackages(cleanups());
const packagesDir = join(root, 'packages/built');
// Debian's Python has no pip; that of an environment has one.
await makePythonEnvironment(join(root, 'python'), []);
const PATH = [join(root, 'python/bin'), process.env['PATH']].join(delimiter);
await succeed('npm', ['run', '--silent', 'packages'], { cwd: root, env: { PATH } });
const { baseUrl } = await startTestApp({ roles: ['serve'], packagesDir });
const page = await fetch(`${baseUrl}/docs/receiving`, { headers: { Accept: 'application/json' } });
const { packages: commands } = (await page.json()) as { packages: { npm: string; python: string } };

async function newFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-packages-'));
  t.after(() => rm(folder, { recursive: true }));
  return folder;
}

test('the npm packages can be imported and required, by TypeScript of every resolution and by Jest', async (t) => {
  const cwd = await newFolder(t);
  const [npm = '', ...install] = commands.npm.split(' ');
  await writeFile(join(cwd, 'package.json'), '{}');
  await succeed(npm, [...install, '--silent', '--no-audit', ...NODE_PACKAGES], { cwd });
  for (const name of ['receiver', 'publisher']) {
    const tarball = join(packagesDir, `halcyon-${name}-${VERSION}.tgz`);
    await succeed(process.execPath, ['node_modules/@arethetypeswrong/cli/dist/index.js', tarball], { cwd });
  }
  const paths = SUBPATHS.map((path) => `'@halcyon/receiver${path}'`);
  await writeFile(
    join(cwd, 'receive.test.js'),
    `test.each([${paths.join()}])('%s is required', (path) => expect(Object.keys(require(path)).length).toBeGreaterThan(0));`,
  );
  await succeed(process.execPath, ['node_modules/jest/bin/jest.js'], { cwd });
  await mkdir(join(cwd, 'src'));
  await writeFile(
    join(cwd, 'src/use.ts'),
    `import { verifyDelivery, type Delivery } from '@halcyon/receiver';
    import { receiveWebhooks } from '@halcyon/receiver/express';
    export const take = (body: Uint8Array): Promise<Delivery> => verifyDelivery({ headers: {}, body, keys: ['key'] });
    export const middleware = receiveWebhooks({ keys: ['key'] }, () => undefined);\n`,
  );
  for (const [module, resolution] of [
    ['commonjs', 'node10'],
    ['node16', 'node16'],
    ['nodenext', 'nodenext'],
    ['esnext', 'bundler'],
  ] as const) {
    const options = ['--strict', '--target', 'es2022', '--module', module, '--moduleResolution', resolution];
    await succeed(
      process.execPath,
      ['node_modules/typescript/bin/tsc', ...options, '--lib', 'es2022,dom', '--outDir', `out-${module}`, 'src/use.ts'],
      { cwd },
    );
  }
  const required = `require('./out-commonjs/use.js').take(new Uint8Array()).catch((error) => console.log(error.code))`;
  assert.equal((await succeed(process.execPath, ['-e', required], { cwd })).trim(), 'missing_header');
});

test('pip installs the wheel of the server', async (t) => {
  const cwd = await newFolder(t);
  const url = commands.python.split(' ').at(-1) ?? '';
  const programOf = await makePythonEnvironment(join(cwd, 'environment'), [url]);
  const use = 'from halcyon_receiver import verify_delivery, remember_ids; print(remember_ids()("a"))';
  assert.equal((await succeed(programOf('python'), ['-c', use])).trim(), 'True');
});
