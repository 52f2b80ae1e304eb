/** Each rule, applied to a small tree that breaks it and one that does not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cycles, forbiddenImports, graphOf, misnamedImports, mutualFolders } from './modules.ts';
import { ellipticComments, namesOfMissingFiles, singleSections } from './comments.ts';
import { defaultExports, exportedArrows, repeatedNames, vagueNames } from './names.ts';
import { foreignWrites, mixedStatements, strayedSql, tablesOf, zonedStatements } from './tables.ts';
import { lateSetups } from './setups.ts';
import { fileOf, type Rule } from './tree.ts';
import { clockReaders, formatNames, idleExceptions, processReaders, READS_ITS_CLOCK } from './words.ts';

type Texts = Readonly<Record<string, string>>;

const tree = (texts: Texts) => Object.entries(texts).map(([path, text]) => fileOf(path, text));
const from = (specifier: string): string => `import { a } from '${specifier}';\n`;

/** A tree in which the rule must find one fault, with this message. */
const refused: readonly (readonly [rule: Rule, texts: Texts, message: RegExp])[] = [
  [forbiddenImports, { 'src/core/a.ts': from('#db/pool.ts') }, /core\/a.ts may not import db/],
  [
    forbiddenImports,
    { 'src/http/a.ts': from('#identity/oauth/a.ts').replace('import', 'import type') },
    /may not import identity\/oauth/,
  ],
  [forbiddenImports, { 'src/events/a.test.ts': from('#delivery/a.ts') }, /may not import delivery/],
  [forbiddenImports, { 'src/http/a.ts': 'await import("#identity/oauth/a.ts");' }, /may not import identity\/oauth/],
  [forbiddenImports, { 'src/http/a.ts': 'await import(name);' }, /computed/],
  [forbiddenImports, { 'src/stores/a.ts': from('#config/config.ts') }, /stores\/a.ts may not import config/],
  [
    forbiddenImports,
    { 'src/server/a.ts': from('#config/env.ts') },
    /may not import config: it imports #config\/env.ts/,
  ],
  [forbiddenImports, { 'src/stores/a.ts': from('#server/app.ts') }, /may not import server/],
  [forbiddenImports, { 'src/config/config.ts': from('#db/pool.ts') }, /config.ts may not import db/],
  [forbiddenImports, { 'src/stores/a.ts': from('../../test/setup/app.ts') }, /outside of src/],
  [forbiddenImports, { 'src/stores/a.test.ts': from('../../test/journeys/b.ts') }, /outside of src/],
  [forbiddenImports, { 'src/webhooks/a.ts': from('#receiver') }, /webhooks\/a.ts may not import receiver/],
  [forbiddenImports, { 'packages/receiver/src/a.ts': from('#core/ids.ts') }, /may not import core/],
  [forbiddenImports, { 'src/cellar/a.ts': '' }, /in no module of the table/],
  [forbiddenImports, { 'src/other.ts': '' }, /in no module of the table/],
  [misnamedImports, { 'src/http/a.ts': from('../core/b.ts') }, /write #core\/b.ts/],
  [misnamedImports, { 'src/http/a.ts': from('#http/b.ts') }, /inside a module write/],
  [misnamedImports, { 'src/cli/a.ts': from('../config/config.ts') }, /write #config\/config.ts/],
  [
    cycles,
    { 'src/a/b.ts': from('./c.ts'), 'src/a/c.ts': from('./b.ts') },
    /^src\/a\/b.ts → src\/a\/c.ts → src\/a\/b.ts$/,
  ],
  [cycles, { 'src/a/b.ts': from('./b.ts') }, /b.ts → src\/a\/b.ts$/],
  [cycles, { 'src/a/b.ts': from('./c.ts'), 'src/a/c.ts': 'import { type A } from "./b.ts"' }, /→/],
  [
    mutualFolders,
    { 'src/a/b/c.ts': "import type { A } from '../d/e.ts';", 'src/a/d/f.ts': from('../b/c.ts') },
    /^src\/a\/b → src\/a\/d$/,
  ],
  [singleSections, { 'src/http/a.ts': 'a();\n\n// Sends.\n\nb();' }, /a.ts has one section only: \/\/ Sends/],
  [vagueNames, { 'src/http/utils.ts': '' }, /utils.ts/],
  [vagueNames, { 'test/setup/index.ts': '' }, /index.ts/],
  [defaultExports, { 'src/http/a.ts': 'export default 1;' }, /default export/],
  [defaultExports, { 'src/http/a.ts': 'export { a as default };' }, /default export/],
  [clockReaders, { 'src/stores/a.ts': 'const now = new Date();' }, /stores\/a.ts reads the clock/],
  [clockReaders, { 'src/stores/a.ts': 'const now = Date.now();' }, /reads the clock/],
  [clockReaders, { 'src/cli/a.ts': "import { systemClock } from '#core/clock.ts';" }, /reads the clock/],
  [lateSetups, { 'test/a.test.ts': "test('a', go);\nconst app = await start();\n" }, /a.test.ts:2 awaits/],
  [exportedArrows, { 'src/http/a.ts': 'export const pageOf = (n: number): Page => read(n);' }, /exports pageOf as/],
  [exportedArrows, { 'src/http/a.ts': 'export const pageOf = async <T>(\n  n: T,\n) => {};' }, /exports pageOf as/],
  [strayedSql, { 'src/stores/a.ts': '\nsql`true`' }, /a.ts:2 contains SQL/],
  [strayedSql, { 'src/stores/a.ts': 'other<{ a: 1 }[]>`\n  select 1`' }, /contains SQL/],
  [strayedSql, { 'src/stores/stores-sql.ts': 'sql.unsafe(text)' }, /not a template/],
  [
    foreignWrites,
    { 'src/stores/stores-sql.ts': 'sql`insert into webhook (a) values (1)`' },
    /webhook, which is webhooks's/,
  ],
  [
    foreignWrites,
    { 'src/events/events-sql.ts': 'sql`with a as (delete from delivery_order d) select 1`' },
    /is delivery's to delete/,
  ],
  [foreignWrites, { 'src/delivery/delivery-sql.ts': 'sql`insert into delivery select 1`' }, /is events's to insert/],
  [foreignWrites, { 'src/events/events-sql.ts': 'sql`update delivery set due_at = 1`' }, /is delivery's to update/],
  [foreignWrites, { 'src/stores/stores-sql.ts': 'sql`update ${sql(name)} set a = 1`' }, /no module owns/],
  [
    foreignWrites,
    { 'src/stores/purges.ts': "\n[{ deletes: 'session' }]" },
    /purges.ts:2 .* is identity\/accounts's to delete/,
  ],
  [
    mixedStatements,
    { 'src/webhooks/a-sql.ts': 'sql`select from webhook w`; sql`update client c set a = 1 from store s`' },
    /client of accounts and webhook of stores/,
  ],
  [
    zonedStatements,
    { 'src/events/a-sql.ts': '\nsql`select now() at time  zone s.zone`' },
    /a-sql.ts:2 reads a time zone/,
  ],
  [foreignWrites, { 'src/stores/purges.ts': '[{ deletes: name }]' }, /no module owns/],
  [foreignWrites, { 'src/db/purges.ts': 'sql`delete from session`' }, /is identity\/accounts's to delete/],
  [foreignWrites, { 'src/stores/stores-sql.ts': 'sql`truncate constructor`' }, /constructor, which no module owns/],
  [processReaders, { 'src/http/a.ts': 'const a = process.env;' }, /process.env/],
  [processReaders, { 'src/http/a.ts': 'const { env } = process;' }, /reads process\./],
  [processReaders, { 'src/db/a.ts': 'process.getuid?.(); process.exit();' }, /process.exit/],
  [processReaders, { 'src/http/a.ts': "import { env } from 'node:process';" }, /imports node:process/],
  [formatNames, { 'src/stores/a.ts': "const a = 'application/hal+json';" }, /the format hal$/],
  [formatNames, { 'src/stores/a.ts': 'renderHal(a)' }, /the format Hal$/],
  [formatNames, { 'src/stores/a.ts': "const a = 'application/xml';" }, /the format xml$/],
  [formatNames, { 'src/delivery/a.ts': 'const toSiren = 1;' }, /the format Siren$/],
  [repeatedNames, { 'src/stores/erase.ts': '', 'src/events/erase.ts': '' }, /name each by its subject/],
  [namesOfMissingFiles, { 'src/stores/a.ts': '\n/** As in stores/b.ts. */' }, /a.ts:2 names stores\/b.ts/],
  [ellipticComments, { 'src/stores/a.ts': '\n/** Of the store. */' }, /a.ts:2 begins without its noun/],
  [
    ellipticComments,
    { 'src/stores/a.ts': 'go();\n  // Not awaited: the\n  // process ends.' },
    /Not awaited: the process/,
  ],
  [ellipticComments, { 'src/stores/a.ts': '/**\n * Written by the\n * trigger.\n */' }, /Written by the trigger/],
];

for (const [rule, texts, message] of refused) {
  test(`${rule.name} refuses ${Object.keys(texts).join(', ')}: ${message.source}`, () => {
    const faults = rule(tree(texts));
    assert.equal(faults.length, 1, faults.join('\n'));
    assert.match(faults[0] ?? '', message);
  });
}

const allowed: readonly (readonly [rule: Rule, texts: Texts])[] = [
  [singleSections, { 'src/http/a.ts': 'a();\n\n// Sends.\n\nb();\n\n// Reads.\n\nc();' }],
  [namesOfMissingFiles, { 'src/stores/a.ts': '// As `stores/a.ts` does.' }],
  [repeatedNames, { 'src/stores/erase.ts': '', 'src/stores/erase.test.ts': '', 'test/stores/erase.ts': '' }],
  [ellipticComments, { 'src/stores/a.ts': "const a = '// Of it'; /** Called by the timer. */ // Returns it." }],
  [clockReaders, { 'src/core/clock.ts': 'new Date()', 'src/stores/a.ts': 'new Date(1); // new Date()' }],
  [lateSetups, { 'test/a.test.ts': "const app = await start();\ntest('a', async () => await go());\n" }],
  [lateSetups, { 'test/a.test.ts': "test('a', go);\nconst go = async () => await 1;\n  await go();\n" }],
  [forbiddenImports, { 'src/http/a.ts': from('#core/ids.ts') + from('./b.ts') + from('fastify') }],
  [forbiddenImports, { 'src/http/a.test.ts': from('../../test/setup/app.ts') }],
  [
    forbiddenImports,
    {
      'src/cli/a.ts': from('#config/config.ts') + from('#server/app.ts'),
      'src/server/app.ts': from('#identity/oauth/a.ts'),
    },
  ],
  [misnamedImports, { 'src/http/b/a.ts': from('../c.ts') + from('#core/b.ts'), 'src/main.ts': from('#cli/a.ts') }],
  [mutualFolders, { 'src/a/b/c.ts': from('../d/e.ts') + from('../g.ts'), 'src/a/g.ts': from('./b/c.ts') }],
  [cycles, { 'src/a/b.ts': from('./c.ts'), 'src/a/c.ts': 'import type { A } from "./b.ts"' }],
  [strayedSql, { 'src/stores/stores-sql.ts': 'sql`select 1`', 'src/stores/a.ts': 'html`<p>select one</p>`' }],
  [
    mixedStatements,
    { 'src/webhooks/a-sql.ts': 'sql`select from webhook`; sql`select from store s join app_webhook a`' },
  ],
  [foreignWrites, { 'src/events/events-sql.ts': 'sql`insert into delivery select 1 on conflict do update set a = 1`' }],
  [foreignWrites, { 'src/webhooks/webhook-sql.ts': 'sql`select 1 from store s for no key update of s`' }],
  [
    foreignWrites,
    { 'src/stores/purges.ts': "[{ deletes: 'store' }]", 'src/db/purges.ts': 'sql`delete from ${sql(deletes)}`' },
  ],
  [processReaders, { 'src/main.ts': 'process.exit()', 'src/http/a.ts': "// process.env\nself.process.a; 'process'" }],
  [formatNames, { 'src/stores/a.ts': "// HAL\nconst halcyon = 'Halcyon shall HALCYON halt hal_at_';" }],
  [formatNames, { 'src/hypermedia/render.ts': "'application/hal+json'", 'src/hypermedia/hal.ts': 'renderHal' }],
];

for (const [rule, texts] of allowed) {
  test(`${rule.name} allows ${Object.keys(texts).join(', ')}`, () => assert.deepEqual(rule(tree(texts)), []));
}

test('an unneeded exception is reported', () => {
  const named = "'application/hal+json'";
  const needed: Texts = {
    ...Object.fromEntries(Object.keys(READS_ITS_CLOCK).map((path) => [path, 'new Date();'])),
    'src/delivery/attempt/formats.ts': named,
    'src/http/bodies/body.ts': named,
    'src/http/bodies/xml-body.ts': named,
  };
  const idle = { 'src/delivery/attempt/attempt-request.ts': '', 'src/cli/trigger.ts': '' };
  assert.deepEqual(idleExceptions(tree({ ...needed, ...idle })), Object.keys(idle));
});

test('the graph counts imports between modules, without those of tests', () => {
  const files = tree({
    'src/http/a.ts': from('#core/a.ts') + from('#core/b.ts') + from('./b.ts'),
    'src/http/a.test.ts': from('#core/c.ts'),
    'src/core/a.ts': '',
    'src/server/app.ts': from('./config.ts') + from('#http/a.ts'),
  });
  assert.deepEqual(graphOf(files), [
    'core              → nothing',
    'http              → core 2',
    'server            → http 1',
  ]);
});

test('the tables of a migration are those it creates', () => {
  assert.deepEqual(tablesOf('-- create table a (\ncreate table b (\n  c int\n);\ncreate index d on b (c);'), ['b']);
});
