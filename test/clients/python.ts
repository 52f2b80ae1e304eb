/** Python's libraries as packaged by Debian: each a script that communicates over its standard input and output. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import type { Walk } from './oauth-flow.ts';

const PYTHON = '/usr/bin/python3';
const PACKAGES = '/usr/lib/python3/dist-packages';
const SCRIPTS = join(import.meta.dirname, 'python');
const PATIENCE_MS = 60_000;

/** The option for `test()`: skips with the reason if Debian's package is not installed; without a module, if Python is not. */
export function needsPython(module = '', debianPackage = 'python3'): { skip?: string } {
  return existsSync(PYTHON) && existsSync(join(PACKAGES, module))
    ? {}
    : { skip: `${debianPackage.toUpperCase()} IS NOT INSTALLED: this test proves nothing here` };
}

/** Runs the tests of a Python package, and returns what they print. Throws if one fails. */
export async function runPythonTests(folder: string, given: Readonly<Record<string, string>> = {}): Promise<string> {
  const env = { ...given, PYTHONPATH: join(folder, 'src'), PYTHONDONTWRITEBYTECODE: '1' };
  const args = ['-W', 'error', '-m', 'unittest', 'discover', '--verbose', '--start-directory', 'tests'];
  const child = spawn(PYTHON, args, { cwd: folder, env, stdio: ['ignore', 'ignore', 'pipe'], timeout: PATIENCE_MS });
  const [report, closed] = [text(child.stderr), once(child, 'close')];
  const [code] = (await closed) as [number | null];
  if (code !== 0) throw new Error(await report);
  return report;
}

/**
 * The script prints the address for the person and reads the one that they returned to; then it prints the statuses of
 * three calls and two refresh tokens, a line each.
 */
export function walkInPython(script: string): Walk {
  return async ({ issuer, clientId, clientSecret, method, redirectUri, visit, store }) => {
    const env = {
      ISSUER: issuer,
      CLIENT_ID: clientId,
      CLIENT_SECRET: clientSecret,
      METHOD: method,
      REDIRECT_URI: redirectUri,
      STORE: store,
    };
    const child = spawn(PYTHON, [join(SCRIPTS, script)], { env, stdio: 'pipe', timeout: PATIENCE_MS });
    const [complaint, closed] = [text(child.stderr), once(child, 'close')];
    const lines: string[] = [];
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(line);
      if (lines.length === 1) child.stdin.end(`${String(await visit(line))}\n`);
    }
    const [code] = (await closed) as [number | null];
    if (code !== 0) throw new Error(`${script} ended with ${code}: ${await complaint}`);
    const [, ...results] = lines;
    return { statuses: results.slice(0, 3).map(Number), refreshTokens: results.slice(3) };
  };
}
