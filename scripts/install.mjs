// Runs before `npm start` and `npm test`, on whatever Node the machine has: installs the locked dependencies when they
// are missing or older than the lock file. Plain JavaScript, because the Node that runs TypeScript is itself a dependency.
import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const modifiedAt = (path) => statSync(root + path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

const installedAt = modifiedAt('node_modules/.bin/node') && modifiedAt('node_modules/.package-lock.json');
if (installedAt < modifiedAt('package-lock.json')) {
  console.error('Installing dependencies (npm ci) …');
  const npm = process.env.npm_execpath;
  const [command, args] = npm ? [process.execPath, [npm]] : ['npm', []];
  const result = spawnSync(command, [...args, 'ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
  });
  if (result.status !== 0) {
    console.error('npm ci failed: see above. Nothing was started.');
    process.exit(1);
  }
}
