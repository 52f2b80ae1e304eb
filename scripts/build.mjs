/**
 * `npm run build`: the server and the command line with their packages as a few files in dist/server/, which start faster and take less
 * memory than the modules. They are two folders below the root, as the modules of src/ are, so that their paths lead to the same
 * documents, migrations and packages. The program is `node dist/server/main.js`; an argument is the folder to build in instead of the root.
 */
import { build } from 'esbuild';
import { cp, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const OUT = join(resolve(process.argv[2] ?? fileURLToPath(new URL('..', import.meta.url))), 'dist/server');
process.chdir(fileURLToPath(new URL('..', import.meta.url)));
/** Packages whose files the server sends to browsers. */
const SERVED = ['@github/relative-time-element', '@primer/octicons', '@simplewebauthn/browser'];

await rm(OUT, { recursive: true, force: true });
await build({
  entryPoints: { main: 'src/main.ts', thread: 'src/cli/demo-receiver/thread.ts' },
  outdir: OUT,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  // jsonc-parser has its modules in CommonJS only as UMD, which no bundler can follow.
  mainFields: ['module', 'main'],
  target: 'node26',
  // Names stay as they are: stack traces are read by people.
  minifyWhitespace: true,
  minifySyntax: true,
  legalComments: 'linked',
  // Packages in CommonJS call `require`. A module that imports createRequire keeps its name.
  banner: { js: "import{createRequire as requireOf}from'node:module';const require=requireOf(import.meta.url);" },
  // Only for other platforms.
  external: ['pg-cloudflare', 'pg-native'],
  logLevel: 'warning',
});
// What modules read, or start, by a path beside them.
await cp('src/hypermedia/scripts', `${OUT}/scripts`, { recursive: true });
await writeFile(`${OUT}/thread.ts`, "import './thread.js';\n");
for (const name of SERVED) await cp(`node_modules/${name}`, `${OUT}/node_modules/${name}`, { recursive: true });
