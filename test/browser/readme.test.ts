/** The transcript of README.md, line by line: its commands in bash, its clicks in Chromium. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { placeForHouse, startHouse } from '../setup/house.ts';
import { until } from '../setup/until.ts';

const README = join(import.meta.dirname, '../../README.md');

const transcript = async (): Promise<string[]> => {
  const text = await readFile(README, 'utf8');
  const section = text.slice(text.indexOf('## From nothing'), text.indexOf('## More'));
  return Array.from(section.matchAll(/```sh\n(.*?)```/gs), ([, block = '']) => block);
};

/** A bash that is told blocks one after another, and answers what each printed. */
const startShell = (cwd: string) => {
  const bash = spawn('bash', { cwd, stdio: ['pipe', 'pipe', 'inherit'] });
  let printed = '';
  bash.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
  let block = 0;
  return {
    run: async (commands: string): Promise<string> => {
      block += 1;
      const end = `block ${block} is over`;
      printed = '';
      bash.stdin.write(`${commands}\necho; echo '${end}'\n`);
      await until(
        async () => printed,
        (text) => text.includes(end),
        30_000,
      );
      return printed.slice(0, printed.indexOf(end)).trim();
    },
    close: () => bash.stdin.end(),
  };
};

/** What a person does at the address: sign in, choose the store, allow, read the code. */
const allowInBrowser = async (address: string, user: { email: string; password: string }): Promise<string> => {
  const browser = await openBrowser();
  try {
    const page = await browser.newPage();
    await page.goto(address);
    await page.getByLabel(/e-mail/i).fill(user.email);
    await page.getByLabel(/password/i).fill(user.password);
    await page.getByRole('button', { name: /sign in/i }).click();
    await page.getByRole('radio').first().check();
    await page.getByRole('button', { name: /allow/i }).click();
    return await page.locator('#code').innerText();
  } finally {
    await browser.close();
  }
};

type Json = Record<string, unknown>;
const json = (text: string): Json => JSON.parse(text) as Json;

test('the transcript of the README works line by line', needsChromium, async (t) => {
  const place = await placeForHouse();
  t.after(() => place.remove());
  const inside = { ...place, dataDir: join(place.dataDir, '.halcyon') };
  inside.env = { ...place.env, HALCYON_DATA: inside.dataDir };
  const house = await startHouse(inside);
  t.after(() => house.end('SIGTERM'));
  const shell = startShell(place.dataDir);
  t.after(() => shell.close());
  const [prepare, home, authorize, exchange, create, publish, compare, statuses, logs, ...rest] = await transcript();
  assert.ok(logs !== undefined && rest.length === 0, 'the README has the nine blocks that this test knows');

  await shell.run(prepare ?? '');
  assert.ok('svc:token' in (json(await shell.run(home ?? ''))['_links'] as Json));
  const code = await allowInBrowser(await shell.run(authorize ?? ''), house.demo.user);
  assert.match(code, /^hal_ac_/);
  // `read` takes the line after its own, as it would take what a person types.
  await shell.run((exchange ?? '').replace(/^(read .*)$/m, `$1\n${code}`));
  assert.match(await shell.run('echo $TOKEN'), /^hal_at_/);
  assert.equal(json(await shell.run(create ?? ''))['name'], 'My first webhook');
  assert.equal(json(await shell.run(publish ?? ''))['event'], 'transaction/created');
  await until(
    async () => house.output().match(/signature verified/g)?.length,
    (count) => count === 2,
  );
  assert.equal(await shell.run(compare ?? ''), 'the same');
  assert.match(await shell.run(statuses ?? ''), /"status":"successful"/);
  assert.match(await shell.run(logs), /"outcome":"delivered"/);

  const received = (await (await fetch(house.demo.receiver.url)).json()) as {
    headers: Record<string, string>;
    body: string;
  }[];
  assert.equal(received.length, 2);
  for (const { headers, body } of received) new Webhook(house.demo.receiver.encryption_key).verify(body, headers);
});
