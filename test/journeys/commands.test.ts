/** The command line and its help: every command has an example, and every example works. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import type { Command } from 'commander';
import { EXIT_CODES, exitCodeOf, explain } from '../../src/cli/explain.ts';
import { createProgram } from '../../src/cli/program.ts';
import { amountOf } from '../setup/amount.ts';
import { startTestApp } from '../setup/app.ts';
import { runCommand, startCommand, startProcess, testTerminal, type Ended } from '../setup/command.ts';
import { testDatabase, urlOf } from '../setup/database.ts';
import { freePort } from '../setup/free-port.ts';
import { until } from '../setup/until.ts';

/** These examples need a browser, a server to listen to, or PostgreSQL's own programs: other tests run them, once as a process. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  login: 'test/journeys/cli-login.test.ts',
  whoami: 'test/journeys/cli-login.test.ts',
  logout: 'test/journeys/cli-login.test.ts',
  listen: 'test/journeys/cli-listen.test.ts',
  trigger: 'test/journeys/cli-listen.test.ts',
  verify: 'test/journeys/cli-verify.test.ts',
  deliver: 'test/journeys/deliver.test.ts',
  doctor: 'test/journeys/doctor.test.ts',
  backup: 'test/faults/operating-manual.test.ts',
  relay: 'test/journeys/relay.test.ts',
  'shards move': 'test/faults/shards-command.test.ts',
};

const folder = await mkdtemp(join(tmpdir(), 'halcyon-commands-'));
after(() => rm(folder, { recursive: true, force: true }));
const { address, sql } = await testDatabase();
const key = randomBytes(32).toString('hex');
const common = {
  DATABASE_URL: urlOf(address),
  HALCYON_SECRET_KEY: key,
  HALCYON_DATA: folder,
  LOG_LEVEL: 'silent',
  PORT: String(await freePort()),
};

const leavesOf = (command: Command): Command[] =>
  command.commands.length === 0 ? [command] : command.commands.flatMap(leavesOf);
const nameOf = (command: Command): string =>
  command.parent === null ? '' : `${nameOf(command.parent)} ${command.name()}`.trim();

/** Returns the printed text, with `more` appended. */
function helpOf(command: Command): string {
  let text = '';
  command.configureOutput({ writeOut: (more) => void (text += more) }).outputHelp();
  return text;
}

const leaves = leavesOf(await createProgram(testTerminal()));
function examplesOf(command: Command): string[] {
  const [, lines = ''] = /^Examples?:\n((?: {2}.+\n?)+)/m.exec(helpOf(command)) ?? [];
  return lines.split('\n').flatMap((line) => (line === '' ? [] : [line.trim()]));
}

test('every command has a description, an example, and --json if it prints something', () => {
  assert.ok(leaves.length > 20);
  for (const command of leaves) {
    const name = nameOf(command);
    assert.match(command.description(), /^[a-z].{15,}/, name);
    const examples = examplesOf(command);
    assert.ok(examples.length > 0, `${name} has no example`);
    for (const example of examples) assert.ok(example.includes(`halcyon ${name}`), example);
    const hasJson = command.options.some(({ long }) => long === '--json');
    assert.equal(hasJson, !['serve', 'deliver'].includes(name), name);
  }
});

test('the help of every command has short lines', () => {
  for (const command of leaves)
    for (const line of helpOf(command).split('\n')) assert.ok(line.length <= 130, `${nameOf(command)}: ${line}`);
});

test('the handbook lists the same exit codes as the help', async () => {
  const handbook = await readFile(join(import.meta.dirname, '../../docs/command-line.md'), 'utf8');
  const documented = [...handbook.matchAll(/^\| (\d+) \| (.+) \|$/gm)].map(([, code, meaning]) => [
    Number(code),
    meaning,
  ]);
  assert.deepEqual(documented, EXIT_CODES);
  let help = '';
  const program = (await createProgram(testTerminal())).configureOutput({ writeOut: (more) => void (help += more) });
  program.outputHelp();
  for (const [code, meaning] of EXIT_CODES) assert.ok(help.includes(`${String(code).padEnd(5)}${meaning}`), help);
});

const run = (args: readonly string[], env: Record<string, string> = {}): Promise<Ended> =>
  runCommand(args, { ...common, ...env });

/** Splits a line as a shell does: the words, and the environment. */
async function readByShell(line: string): Promise<{ args: string[]; env: Record<string, string> }> {
  const names = ['PORT', 'HALCYON_SECRET_KEY', 'HALCYON_SECRET_KEY_OTHER'];
  const print = `halcyon() { printf '%s\\0' ${names.map((name) => `"$${name}"`).join(' ')} "$@"; }; export-orders() { :; }`;
  const { stdout } = await promisify(execFile)('bash', ['-c', `${print}\n${line}`], {
    env: { NEW: key, OLD: randomBytes(32).toString('hex') },
  });
  const words = stdout.split('\0').slice(0, -1);
  const set = names.flatMap((name, at) => (words[at] ? [[name, words[at]] as const] : []));
  return { args: words.slice(names.length), env: Object.fromEntries(set) };
}

const HISTORY = JSON.stringify({ type: 'transaction', resource: { id: 1001, date_modified: '2024-03-01' } });
const ORDER = JSON.stringify({ event: 'transaction/created', resource: { id: 1001, total: 24.5 } });

/** How many examples of each command run as a process, if all is run; the others run in this one. */
const AS_PROCESS = amountOf('commands', { all: 1, part: 0 });

test('every example works', async () => {
  const made = async (...args: string[]): Promise<Record<string, string>> => {
    const { code, out, err } = await run(args);
    assert.equal(code, 0, err);
    return JSON.parse(out) as Record<string, string>;
  };
  const app = await startTestApp({ sql, secretKey: Buffer.from(key, 'hex') });
  const platform = await made('client', 'create', '--name', 'Platform', '--trusted');
  const { client_id: platformId = '' } = platform;
  await writeFile(join(folder, 'orders.jsonl'), ORDER);
  await writeFile(join(folder, 'history.jsonl'), HISTORY);
  await writeFile(join(folder, 'platform.json'), JSON.stringify(platform));
  const demo = { base_url: app.baseUrl, store_id: app.storeId, platform };
  await writeFile(join(folder, 'demo.json'), JSON.stringify(demo));

  const callback = 'https://one.example/callback';
  const { client_id: clientId = '' } = await made('client', 'create', '--name', 'One', '--redirect-uri', callback);
  const { id: invitation = '' } = await made('client', 'registration-token');
  const { id: storeId } = await made(
    'store',
    'create',
    '--name',
    'A',
    '--domain',
    'a.example',
    '--email',
    'a@a.example',
  );
  const { id: userId } = await made('user', 'create', 'member@example.com');
  const { id: ownerId } = await made('user', 'create', 'ada@shop.example');
  await made('store', 'add-member', String(storeId), String(ownerId));
  const port = String(await freePort());

  for (const [name, path] of Object.entries(ELSEWHERE)) {
    const text = await readFile(join(import.meta.dirname, '../..', path), 'utf8');
    assert.match(text, new RegExp(`'${name}'`), `${path} runs no ${name}`);
    assert.match(text, /(?:run|start)Process\b/, path);
  }
  const values: Record<string, string> = {
    '5f0c1d9e8b7a6f5e4d3c2b1a': clientId,
    '5f0c1d9e8b7a6f5e': invitation,
    '5f0c1d9e': platformId,
    '42': String(userId),
    'https://api.example.com': app.baseUrl,
    '8090': port,
  };
  // In one pass, because a random id may contain the digits of another example.
  const placeholders = new RegExp(`(?<!\\w)(?:${[...Object.keys(values), '4711'].join('|')})(?!\\w)`, 'g');
  for (const command of leaves) {
    const name = nameOf(command);
    if (Object.hasOwn(ELSEWHERE, name)) continue;
    const store = String(['publish', 'load'].includes(name) ? app.storeId : storeId);
    const isLongRunning = !command.options.some(({ long }) => long === '--json');
    for (const [index, example] of examplesOf(command).entries()) {
      const line = example.replaceAll(placeholders, (text) => values[text] ?? store);
      const { args, env } = await readByShell(line);
      const asked = { ...common, ...env };
      const running =
        index < AS_PROCESS
          ? startProcess(args, asked, { cwd: folder })
          : startCommand(args, asked, {
              cwd: folder,
              input: () => Readable.from([Buffer.from(args[0] === 'load' ? HISTORY : ORDER)]),
            });
      if (isLongRunning) {
        await until(
          async () => running.said(),
          (said) => /is (?:ready|delivering)\./.test(said),
        );
        running.kill('SIGTERM');
      }
      const { code, out, err } = await running.ended;
      assert.equal(code, 0, `${example}: ${err}`);
      if (!isLongRunning) assert.notEqual(out, '', example);
      if (args.includes('--json')) assert.equal(typeof JSON.parse(out), 'object', example);
      if (!isLongRunning && name !== 'migrate') assert.equal(err, '', example);
    }
  }
});

const MISTYPED: readonly (readonly [args: string[], pattern: RegExp])[] = [
  [['sevre'], /'sevre'.* serve\?.* halcyon --help/],
  [['client', 'vreify', 'x'], /'vreify'.* verify\?.* halcyon client --help/],
  [['user', 'create', '--jsn'], /'--jsn'.* --json\?.* halcyon user create --help/],
  [['store', 'create'], /'--name <name>'.* halcyon store create --help/],
  [['user', 'create'], /'email'.* halcyon user create --help/],
  [['publish', 'x', '--retry-for', 'soon'], /--retry-for must be a whole number/],
  [['publish', 'x', '--retry-for', ''], /--retry-for must be a whole number/],
  [
    ['verify', '--key-file', 'x', '--headers', 'x', '--body', 'x', '--max-age', '-1'],
    /--max-age must be a whole number/,
  ],
  [['publish', 'x', '--store', 'mine'], /--store must be an id/],
  [['store', 'add-member', '1', 'ada'], /user_id must be an id/],
  [['store', 'add-member', '1', '1', '--role', 'guest'], /Allowed choices are owner, member/],
  [['client', 'verify', 'no body'], /client_id must be letters/],
  [['client', 'registration-token', '--days', '0'], /--days must be a whole number/],
];

test('a mistyped command gets the nearest one, where its help is, and exit code 2', async () => {
  for (const [args, pattern] of MISTYPED) {
    const { code, out, err } = await run(args);
    assert.deepEqual([code, out], [2, ''], err);
    assert.match(err, pattern);
  }
});

test('with --json an error is one object on stderr with an error code', async () => {
  const nowhere = { DATABASE_URL: 'postgres://u@127.0.0.1:1/x' };
  const cases: readonly (readonly [args: string[], env: Record<string, string>, exit: number, code: string])[] = [
    [['user', 'crate', '--json'], {}, 2, 'usage'],
    [['client', 'verify', 'unknown', '--json'], {}, 1, 'not_found'],
    [['migrate', '--json'], { PORT: 'http' }, 1, 'configuration'],
    [['listen', '--key-file', folder, '--json'], {}, 1, 'failed'],
    [['listen', '--key-file', join(folder, 'no/such'), '--json'], {}, 1, 'failed'],
    [['migrate', '--json'], nowhere, 3, 'unreachable'],
    [['migrate', '--json'], { HALCYON_SECRET_KEY: 'ab'.repeat(32) }, 1, 'database'],
  ];
  for (const [args, env, exit, code] of cases) {
    const ended = await run(args, env);
    const { error } = JSON.parse(ended.err) as { error: { code: string; message: string } };
    assert.deepEqual([ended.code, error.code, ended.out], [exit, code, ''], ended.err);
    assert.ok(error.message.length > 10);
  }
});

test('a command whose reader closes the pipe, as head does, ends without output', async () => {
  const { child, ended } = startProcess(['doctor'], common);
  child.stdout.destroy();
  const { code, err } = await ended;
  assert.deepEqual([err, code, child.signalCode], ['', null, 'SIGTERM']);
});

const errorOf = (code: string, message: string): Error => Object.assign(new Error(message), { code });

test('an error of the machine or a database is one line that says what to do', () => {
  const cases: readonly (readonly [error: Error, exit: number, pattern: RegExp])[] = [
    [errorOf('ENOSPC', 'no space left on device, write'), 1, /^halcyon: no space left.*: free space/],
    [errorOf('EACCES', "permission denied, open '/x'"), 1, /^halcyon: permission denied.* owns the files/],
    [errorOf('53100', 'could not extend file'), 1, /^halcyon: could not extend.* the database /],
    [errorOf('42501', 'permission denied for table users'), 1, /^halcyon: .*connect as the owner/],
    [errorOf('57P01', 'terminating connection'), 3, /^halcyon: The database became unavailable/],
    [new Error('outer', { cause: errorOf('ENOSPC', 'inner') }), 1, /^halcyon: outer; the disk is full/],
  ];
  for (const [error, exit, pattern] of cases) {
    const said = explain(error) ?? '';
    assert.match(said, pattern);
    assert.equal(said.includes('\n'), false);
    assert.equal(exitCodeOf(error), exit);
  }
  assert.match(explain(new TypeError('x is not a function')) ?? '', /please report this:\nTypeError/);
});
