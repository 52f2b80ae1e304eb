/** A package as npm would publish it, in a project that has it installed. */
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Cleanups } from '../../setup/cleanups.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '../../..');
export const PACKAGE = join(ROOT, 'packages/receiver');
/** The targets of the examples and their types. */
const BESIDE = ['express', 'fastify', 'hono', '@hono/node-server', '@types/express', '@types/node'];

export type Packed = { size: number; unpackedSize: number; files: { path: string; size: number }[] };

/** Returns the sorted paths of the files of a package with these modules: as modules of JavaScript, and for CommonJS. */
export function publishedFiles(modules: readonly string[]): string[] {
  const emitted = ['dist', 'dist/cjs'].flatMap((folder) =>
    modules.flatMap((name) => [`${folder}/${name}.d.ts`, `${folder}/${name}.js`]),
  );
  return ['CHANGELOG.md', 'LICENSE', 'README.md', 'dist/cjs/package.json', 'package.json', ...emitted].toSorted();
}

/** Copies what builds the packages, because each build begins with an empty `dist`; returns the root of the copy. */
export async function copyPackages(ends: Cleanups): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'halcyon-root-'));
  ends.after(() => rm(root, { recursive: true, force: true }));
  const filter = (path: string): boolean => !/\/(?:node_modules|dist|built)$/.test(path);
  for (const path of ['package.json', 'tsconfig.json', 'scripts/install.mjs', 'packages'])
    await cp(join(ROOT, path), join(root, path), { recursive: true, filter });
  await symlink(join(ROOT, 'node_modules'), join(root, 'node_modules'));
  return root;
}

/** Packs `@halcyon/<name>` by npm, and returns a folder that has it installed. */
export async function installPackage(name: string, ends: Cleanups): Promise<{ folder: string; packed: Packed }> {
  const folder = await mkdtemp(join(tmpdir(), `halcyon-${name}-`));
  ends.after(() => rm(folder, { recursive: true, force: true }));
  const npm = process.env['npm_execpath'];
  const [command, first] = npm === undefined ? ['npm', []] : [process.execPath, [npm]];
  const { stdout } = await run(command, [...first, 'pack', '--json', '--pack-destination', folder], {
    cwd: join(await copyPackages(ends), 'packages', name),
  });
  const packed = (JSON.parse(stdout) as (Packed & { filename: string })[])[0];
  if (packed === undefined) throw new Error(`npm packed nothing: ${stdout}`);
  const installed = join(folder, 'node_modules/@halcyon', name);
  await mkdir(installed, { recursive: true });
  await run('tar', ['-xzf', join(folder, packed.filename), '--strip-components=1', '-C', installed]);
  await writeFile(join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
  return { folder, packed };
}

/** Installs the receiver with its examples and their frameworks. */
export async function installPacked(ends: Cleanups): Promise<{ folder: string; packed: Packed }> {
  const { folder, packed } = await installPackage('receiver', ends);
  for (const name of BESIDE) {
    await mkdir(dirname(join(folder, 'node_modules', name)), { recursive: true });
    await symlink(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name));
  }
  await cp(join(PACKAGE, 'examples'), join(folder, 'examples'), { recursive: true });
  return { folder, packed };
}

/** Compiles the files of the folder; returns TypeScript's output. */
export async function compile(folder: string, settings: Record<string, unknown>, include: string[]): Promise<string> {
  const compilerOptions = { target: 'es2022', strict: true, noEmit: true, ...settings };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include }));
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  return run(process.execPath, [tsc, '--project', folder], { cwd: folder }).then(
    ({ stdout }) => stdout,
    (error: { stdout: string }) => error.stdout,
  );
}
