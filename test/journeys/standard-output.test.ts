/** The output of a process with its own database. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { test } from 'node:test';
import { spawnCommand } from '../setup/command.ts';
import { databaseEnvOf, testDatabase } from '../setup/database.ts';

type Line = Record<string, unknown>;

/** Starts it over a database of its own, stops it as soon as it reports that it runs, and returns the lines of its log. */
async function stopAtOnce(t: { after: (fn: () => Promise<void>) => void }, command: string): Promise<Line[]> {
  const { address } = await testDatabase(t);
  const secret = randomBytes(32).toString('hex');
  const child = spawnCommand([command], { ...databaseEnvOf(address), HALCYON_SECRET_KEY: secret, LOG_LEVEL: 'info' });
  const ended = once(child, 'close');
  let [out, err] = ['', ''];
  const stopWhenItRuns = () => void ((out + err).includes('is delivering.\n') && child.kill('SIGTERM'));
  child.stdout
    .setEncoding('utf8')
    .on('data', (text: string) => (out += text))
    .on('data', stopWhenItRuns);
  child.stderr
    .setEncoding('utf8')
    .on('data', (text: string) => (err += text))
    .on('data', stopWhenItRuns);
  assert.deepEqual(await ended, [0, null], err);
  const lines = out.trimEnd().split('\n');
  for (const line of lines) assert.match(line, /^\{"level":/);
  return lines.map((line) => JSON.parse(line) as Line);
}

test('the standard output of a process with a database of its own consists of log lines', async (t) => {
  const lines = await stopAtOnce(t, 'deliver');
  assert.ok(lines.some(({ msg }) => msg === 'stopping'));
});
