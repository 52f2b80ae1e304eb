/** The designed page of a delivery: what happened, its attempts, and a command that repeats its request without secrets. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { createFiller } from '../setup/form-filler.ts';
import { inhabit } from '../setup/populated-app.ts';
import { until } from '../setup/until.ts';

const KEY = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const fixture = await inhabit();
const { alpha, receiver, tokens, call, sql } = fixture;
const { show, formFor, send } = createFiller(fixture.origin, fixture.browser);

const NOTE = `it's $HOME \`id\`\n"<b>" Zoë \u202e`;
let status = 500;
receiver.answer((_got, response) => {
  response.writeHead(status, { 'Content-Type': 'application/json' }).end('{"error":"<script>x</script>","n":1.0}');
});
const settings = {
  name: 'Shelf',
  format: 'json',
  event_resource: 'customer',
  encryption_key: KEY,
  url: `${receiver.url}/shelf?token=SECRET`,
  headers: { 'X-Team': 'SECRET' },
};
const made = await call('POST', `/stores/${alpha}/webhooks`, { body: settings });
assert.equal(made.status, 201);
const { id: webhook } = (await made.json()) as { id: number };
const body = { event: 'customer/created', resource: { id: 77, first_name: NOTE } };
const { status: published } = await call('POST', `/stores/${alpha}/events`, { token: tokens.platform, body });
assert.equal(published, 201);
const [row] = await until(
  () => sql<{ id: number }[]>`select delivery_id as id from attempt_log where webhook_id = ${webhook}`,
  (rows) => rows.length === 1,
);
const PATH = `/webhooks/${webhook}/statuses/${row?.id}`;
const got = receiver.got.find(({ path }) => path.startsWith('/shelf'));

async function read(path = PATH, by = show): Promise<{ page: string; words: string }> {
  const response = await by(path);
  assert.equal(response.status, 200);
  const page = await response.text();
  const words = page
    .slice(page.indexOf('<main'))
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ');
  return { page, words };
}
/** Returns a function that reads the page while time passes, so that the worker also looks for changes whose message was lost. */
const passing = (path: string) => () => {
  fixture.wait(100);
  return read(path);
};
const textOf = (markup: string): string =>
  markup
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');
const commandIn = (page: string): string | undefined => {
  const [, command] = /<pre class="command copyable">\n([^]*?)<\/pre>/.exec(page) ?? [];
  return command && textOf(command);
};

test('it says what happened, why, what to do and what comes next', async () => {
  const { page, words } = await read();
  assert.match(page, /<span class="badge">Retrying<\/span>/);
  assert.match(words, /Attempt 2 of 12: 1 Jul 10:0\d UTC/);
  assert.match(page, /<strong>Your endpoint answered 500<\/strong>: an error occurred in it\. Check its log/);
  assert.match(page, /<div data-live="\d+">/);
});

test('the response of the last attempt is open, indented, and its markup is text', async () => {
  const { page } = await read();
  const [, open = ''] = /<details class="fold" open>([^]*?)<\/details>/.exec(page) ?? [];
  assert.match(textOf(open), /\{\n {2}"error": "<script>x<\/script>",\n {2}"n": 1\.0\n\}/);
  assert.doesNotMatch(page, /<script>/);
});

test('a shell and curl repeat the request of the command: the same body, without secrets', async () => {
  const { page } = await read();
  assert.ok(page.includes('X-Team: SECRET'), 'the owner may see the header on the page');
  const command = commandIn(page);
  assert.ok(command !== undefined && got !== undefined);
  assert.doesNotMatch(command, /SECRET|signature|X-Team/i);
  const output = execFileSync('sh', ['-c', `curl() { for one do printf '%s\\0' "$one"; done; }\n${command}`], {
    encoding: 'utf8',
  });
  const words = output.split('\0');
  assert.ok(words.includes(`${receiver.url}/shelf`));
  assert.ok(words.includes(`webhook-id: ${String(got.headers['webhook-id'])}`));
  const sent = words[words.indexOf('--data-raw') + 1] ?? '';
  assert.deepEqual(JSON.parse(sent), JSON.parse(got.body.toString()));
});

test('a member who is no owner, and the owner, get the same command', async () => {
  const ofOwner = commandIn((await read()).page);
  await call('POST', `/stores/${alpha}/members`, {
    token: tokens.platform,
    body: { user: fixture.bobId, role: 'member' },
  });
  const member = createFiller(fixture.origin, fixture.bobsBrowser);
  const { page } = await read(PATH, member.show);
  assert.doesNotMatch(page, /SECRET/);
  assert.equal(commandIn(page), ofOwner);
});

test('a failed delivery can be sent again, and the page of the new one says that it arrived', async () => {
  for (const is_active of ['0', '1'])
    assert.equal((await call('PATCH', `/webhooks/${webhook}`, { body: { is_active } })).status, 200);
  const failed = await until(passing(PATH), ({ words }) => words.includes('Failed 1 July 2026'));
  assert.match(failed.words, /after 1 attempt\. There are no more automatic attempts\./);
  assert.match(failed.page, /<p class="alert">/);
  status = 200;
  const sent = await send(`${PATH}/resend`, await formFor(PATH, 'POST'));
  const location = sent.headers.get('location') ?? '';
  assert.match(location, /\/statuses\/\d+\?done=begun$/);
  const arrived = await until(passing(location), ({ words }) => words.includes('Delivered 1 July 2026'));
  assert.match(arrived.words, /at the first attempt\./);
  assert.doesNotMatch(arrived.page, /<details class="fold" open>/);
});
