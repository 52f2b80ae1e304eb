/** The retention table of docs/operating.md lists exactly what is purged, and when. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readConfig } from '#config/config.ts';
import { createLog } from '#core/log.ts';
import { openPool } from '#db/pool.ts';
import { eventCachesOf, openInternalEvents } from '../../src/server/publishing.ts';
import { purgesOfHome, purgesOfStores } from '../../src/server/retention.ts';
import { ROOT } from './page.ts';

const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
] as const;

/** As in prose, in the largest unit without a fraction. */
function periodOf(ms: number): string {
  const [unit, unitMs] = UNITS.find(([, each]) => ms % each === 0) ?? ['ms', 1];
  const count = ms / unitMs;
  return ms === 0 ? '–' : `${count} ${unit}${count === 1 ? '' : 's'}`;
}

test('docs/operating.md has a line for each purge, in their order, with the retention of its rows', async () => {
  const config = readConfig({}, '/');
  // Connects on first use.
  const sql = openPool(
    { kind: 'url', url: 'postgres://localhost/halcyon' },
    { connections: 1, applicationName: 'test' },
  );
  const deps = { config, sql, ...openInternalEvents(config) };
  const ofStores = purgesOfStores({
    ...deps,
    log: createLog('silent'),
    caches: eventCachesOf(undefined),
  });
  const purges = purgesOfHome({ ...deps, ofStores, each: () => [sql] });
  const page = await readFile(join(ROOT, 'docs/operating.md'), 'utf8');
  const [, table = ''] = /^\| `what` \| rows \| kept \|\n.*\n((?:\|.*\n)+)/m.exec(page) ?? [];
  const lines = [...table.matchAll(/^\| `(\w+)` \| [^|]+ \| ([^|(]+?)(?: \([^|]*)? \|$/gm)];
  assert.equal(lines.length, table.split('\n').length - 1, 'every line has three cells');
  assert.deepEqual(
    lines.map(([, name, kept]) => [name, kept]),
    purges.map(({ name, keptMs }) => [name, periodOf(keptMs)]),
  );
  await sql.end();
});
