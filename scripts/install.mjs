// Runs before `npm start` and `npm test`, on whatever Node the machine has: installs the locked dependencies when they
// are missing or older than the lock file. Plain JavaScript, because the Node that runs TypeScript is itself a dependency.
// With `--omit=dev` it installs only what the server needs: a third of the packages.
import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const INSTALLED = 'node_modules/.package-lock.json';
/** A package that the server does not need. */
const DEVELOPMENT = 'node_modules/typescript/package.json';
const modifiedAt = (path) => statSync(root + path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

function installationOf(isServerOnly) {
  const installedAt = modifiedAt('node_modules/.bin/node') && modifiedAt(INSTALLED);
  if (installedAt < modifiedAt('package-lock.json')) return isServerOnly ? ['ci', '--omit=dev'] : ['ci'];
  // `npm ci` would delete the packages of a server that runs from this folder.
  return isServerOnly || modifiedAt(DEVELOPMENT) > 0 ? undefined : ['install', '--no-save'];
}

const args = installationOf(process.argv.includes('--omit=dev'));
if (args !== undefined) {
  console.error(`Installing dependencies (npm ${args.join(' ')}) …`);
  const npm = process.env.npm_execpath;
  const [command, first] = npm ? [process.execPath, [npm]] : ['npm', []];
  const result = spawnSync(command, [...first, ...args, '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
  });
  if (result.status !== 0) {
    console.error(`npm ${args.join(' ')} failed: see above. Nothing was started.`);
    process.exit(1);
  }
}
