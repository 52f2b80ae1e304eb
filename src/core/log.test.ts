import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from './log.ts';

test('one disk-full line per minute is written, with the number of suppressed ones; all other lines are written', () => {
  const lines: Record<string, unknown>[] = [];
  let nowMs = 0;
  const write = (line: string): void => void lines.push(JSON.parse(line) as Record<string, unknown>);
  const log = createLog('info', { write }, () => nowMs);
  const full = Object.assign(new Error('no space'), { code: '53100' });
  const report = (): void => {
    log.error({ err: full }, 'refused');
    log.warn({ err: new Error('wrapped', { cause: full }) }, 'unknown');
    log.error({ err: Object.assign(new Error('other'), { code: '53300' }) }, 'other');
    log.info('plain');
  };
  report();
  report();
  nowMs = 59_999;
  report();
  assert.deepEqual(
    lines.map(({ msg }) => msg),
    ['refused', 'other', 'plain', 'other', 'plain', 'other', 'plain'],
  );
  lines.length = 0;
  nowMs = 60_000;
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
