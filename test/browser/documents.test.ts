/** Every command in the documents, run as printed: in bash, in a fresh copy, with a person in Chromium. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { needsChromium } from '../setup/chromium.ts';
import { installedCopy } from '../docs/installed.ts';
import { readPages, type Page } from '../docs/page.ts';
import { readWithShell, whyNotRun } from '../docs/reader.ts';
import { startShell, type Running } from '../docs/shell.ts';

/** Documents are tested by running them completely: the test command itself, values of the reader, a shop's database. */
const UNTESTED_MAX = 3;
const isRead = ({ path }: Page): boolean => path === 'README.md' || path.startsWith('docs/');
/** The README comes first: it starts the server that all other pages use. */
const rank = ({ path }: Page): string => (path === 'README.md' ? '' : path);

const pages = readPages()
  .filter(isRead)
  .filter(({ blocks }) => blocks.some(({ language }) => language === 'sh'))
  .toSorted((a, b) => rank(a).localeCompare(rank(b)));

test('commands of the documents that are not run name the test that runs them, except a few', (t) => {
  const notRun = pages.flatMap(({ path, blocks }) =>
    blocks.flatMap((block) => {
      const why = whyNotRun(block);
      return why === undefined ? [] : [`${path}:${block.line}: ${why}`];
    }),
  );
  for (const line of notRun) t.diagnostic(`not run: ${line}`);
  const untested = notRun.filter((line) => !existsSync(/test\/\S+\.test\.ts/.exec(line)?.[0] ?? ''));
  assert.ok(untested.length <= UNTESTED_MAX, untested.join('\n'));
});

test('every command of the documents has the result that its page shows', needsChromium, async (t) => {
  const place = await installedCopy();
  t.after(() => place.remove());
  const running: Running[] = [];
  t.after(async () => {
    for (const { end } of running.toReversed()) await end();
  });
  const read = async (page: Page): Promise<void> => {
    const shell = await startShell(place.path, join(place.path, '.notes', page.path), place.env);
    try {
      await readWithShell(page, shell, place, running);
    } finally {
      await shell.close();
    }
  };
  const [readme, ...others] = pages;
  assert.equal(readme?.path, 'README.md');
  // Without its server none of the others could be run.
  await read(readme);
  for (const page of others) await t.test(page.path, () => read(page));
});
