import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from './log.ts';

type Line = { msg: string; repeated?: number; database?: number };

const UNAVAILABLE = ['53100', '53300', '57P03', '08006', 'CONNECTION_SUSPENDED'];
const withCode = (code: string) => Object.assign(new Error(code), { code });
const isUnavailable = (error: unknown): boolean =>
  UNAVAILABLE.some((code) => error instanceof Error && 'code' in error && error.code === code);

function recorded() {
  const lines: Line[] = [];
  const time = { nowMs: 0 };
  const write = (line: string): void => void lines.push(JSON.parse(line) as Line);
  const log = createLog('info', { write }, { isUnavailable, nowMs: () => time.nowMs });
  return { lines, time, log };
}

test('one line per minute says that a database is unavailable, with the number of suppressed ones; all other lines are written', () => {
  const { lines, time, log } = recorded();
  const report = (): void => {
    log.error({ err: withCode('53100') }, 'refused');
    log.warn({ err: new Error('wrapped', { cause: withCode('53100') }) }, 'refused');
    log.error({ err: withCode('42601') }, 'other');
    log.info('plain');
  };
  report();
  report();
  time.nowMs = 59_999;
  report();
  const others = ['other', 'plain'];
  assert.deepEqual(
    lines.map(({ msg }) => msg),
    ['refused', ...others, ...others, ...others],
  );
  lines.length = 0;
  time.nowMs = 60_000;
  report();
  assert.deepEqual(
    lines.map(({ msg, repeated }) => [msg, repeated]),
    [
      ['refused', 5],
      ['other', undefined],
      ['plain', undefined],
    ],
  );
});

test('each message, reason and database has its own line', () => {
  const { lines, log } = recorded();
  const errors = UNAVAILABLE.map(withCode);
  const messages = ['first message', 'second message'];
  for (let round = 0; round < 100; round += 1)
    for (const err of errors)
      for (const database of [0, 1, 2])
        for (const msg of messages) log.child({ pid: 1 }).error({ err, database, round }, msg);
  assert.equal(lines.length, errors.length * 3 * messages.length);
});
