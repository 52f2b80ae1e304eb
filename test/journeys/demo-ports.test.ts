/** The demo's receiver listens beside PORT and avoids the other ports in use. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { openDemo } from '../../src/cli/demo.ts';
import { readConfig } from '#config/config.ts';
import { testDatabase } from '../setup/database.ts';
import { freePort } from '../setup/free-port.ts';

test('the receiver leaves METRICS_PORT free, on the first start and if an earlier one had taken it', async (t) => {
  const { sql } = await testDatabase(t);
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-demo-'));
  t.after(() => rm(folder, { recursive: true }));
  const port = await freePort();
  const said: string[] = [];
  const open = async (metricsPort: number) => {
    const config = readConfig({ PORT: String(port), METRICS_PORT: String(metricsPort), HALCYON_DATA: folder }, folder);
    const demo = await openDemo({
      config,
      installation: { sql },
      print: (text) => void said.push(text),
    });
    assert.ok(demo);
    t.after(() => demo.stop());
    return { demo, at: Number(new URL(demo.file.receiver.url).port) };
  };
  const first = await open(port + 1);
  assert.notEqual(first.at, port + 1);
  assert.deepEqual(said, []);
  await first.demo.stop();
  const second = await open(first.at);
  assert.equal(second.at, first.at, 'the webhook has this address');
  assert.match(said.join('\n'), new RegExp(`^Port ${first.at} .*$`));
});
