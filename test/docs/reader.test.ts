/** Checks of documents, applied to pages that are wrong: each fault must be found. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { readPage } from './page.ts';
import { readWithShell } from './reader.ts';
import { startShell, type Running } from './shell.ts';
import { isShown } from './compare-output.ts';

const sh = (commands: string): string => `\`\`\`sh\n${commands}\n\`\`\`\n`;
const text = (shown: string): string => `\`\`\`text\n${shown}\n\`\`\`\n`;

/** Returns the first fault; undefined if the page is correct. */
async function faultOf(t: TestContext, page: string): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-page-'));
  const shell = await startShell(folder, join(folder, 'notes'), { PATH: process.env['PATH'] ?? '' });
  const running: Running[] = [];
  t.after(async () => {
    await shell.close();
    for (const { end } of running) await end();
    await rm(folder, { recursive: true });
  });
  try {
    await readWithShell(readPage('page.md', page), shell, { path: folder, port: 4321 }, running);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

test('a page is correct if its commands print the shown output', async (t) => {
  const page = [
    sh('name=world\ngreet() { echo "hello $1, 12 times at localhost:8080"; }'),
    sh('greet $name'),
    text('hello …, 99 times\nat localhost:4321'),
    `<!-- not run: it would end the machine -->\n\n${sh('exit 1')}`,
    `<!-- keeps running; says: begun -->\n${sh('echo begun $name; exec sleep 60')}`,
    `<!-- where it keeps running -->\n${text('begun world')}`,
  ];
  assert.equal(await faultOf(t, page.join('\n')), undefined);
});

const untrue: readonly (readonly [name: string, page: string, fault: RegExp])[] = [
  ['a command that fails', sh('true\nfalse\ntrue'), /^page\.md:2: false failed/],
  ['a command that fails within a value', sh('name=$(false)\necho "$name"'), /false.* failed/],
  ['an unknown command', sh('halcyonn'), /halcyonn failed/],
  ['another word than shown', `${sh('echo one two')}\n${text('one three')}`, /^page\.md:6: what is printed is one two/],
  [
    'an error response that the page does not show',
    sh(`echo '{"error":"invalid_token"}'`),
    /does not say that it prints/,
  ],
  [
    'a start message that does not appear',
    `<!-- keeps running; says: ready -->\n${sh('echo steady')}`,
    /ended before it said "ready"/,
  ],
];

for (const [name, page, fault] of untrue) {
  test(`found: ${name}`, async (t) => assert.match((await faultOf(t, page)) ?? 'nothing', fault));
}

test('a status must be the shown one, any other number may differ', () => {
  const answer = 'HTTP/1.1 201 Created\r\nlocation: http://localhost:4321/webhooks/7\r\n\r\n{"id": 7,"name":"Orders"}';
  assert.ok(isShown('HTTP/1.1 201 Created\n…\n{"id":2778,"name":"Orders"}', answer));
  assert.ok(!isShown('HTTP/1.1 200 Created', answer));
  assert.ok(!isShown('{"id":2778,"name":"Invoices"}', answer));
  assert.ok(!isShown('{"id":"2778"}', answer));
});
