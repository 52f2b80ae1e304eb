/** The client that orval (from npm), which writes an object for each enumeration, makes from /openapi.json compiles. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { startTestApp } from '../setup/app.ts';
import { succeed } from './programs.ts';

const VERSION = '7.13.2';
const MODULES = join(import.meta.dirname, '../../node_modules');
const OPTIONS = '--noEmit --strict --skipLibCheck --target esnext --module nodenext --lib esnext,dom client.ts';

test('the client of orval compiles', async (t) => {
  const cwd = await mkdtemp(join(tmpdir(), 'halcyon-orval-'));
  t.after(() => rm(cwd, { recursive: true }));
  const { baseUrl } = await startTestApp({ roles: ['serve'] });
  await succeed('npm', ['install', '--silent', '--no-audit', '--prefix', join(cwd, 'generator'), `orval@${VERSION}`]);
  const generator = join(cwd, 'generator/node_modules/orval/dist/bin/orval.js');
  const source = ['--input', `${baseUrl}/openapi.json`, '--output', 'client.ts', '--client', 'fetch'];
  await succeed(process.execPath, [generator, ...source], { cwd });
  await succeed(process.execPath, [join(MODULES, 'typescript/bin/tsc'), ...OPTIONS.split(' ')], { cwd });
});
