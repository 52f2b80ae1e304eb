/** Writes the tables of settings into docs/operating.md, as src/config/settings/ describes them: `node scripts/settings-table.ts`. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileVariable } from '#config/env.ts';
import { SETTING_GROUPS } from '#config/settings/settings.ts';

export const HANDBOOK = join(import.meta.dirname, '../docs/operating.md');
const MARKS = /(?<=<!-- settings\b[^>]*-->\n).*?(?=<!-- end of settings -->)/s;
const HEAD = '| variable | default | allowed values | meaning |\n|---|---|---|---|\n';

const tables = (): string =>
  SETTING_GROUPS.map(([title, settings]) => {
    const rows = Object.entries(settings).map(
      ([name, { isSecret, defaultText, allowed, meaning }]) =>
        `| \`${name}\`${isSecret ? `, \`${fileVariable(name)}\`` : ''} | ${defaultText} | ${allowed} | ${meaning} |\n`,
    );
    return `\n**${title}**\n\n${HEAD}${rows.join('')}`;
  }).join('');

/** The page with the tables as they have to be; everything else as it is. */
export function withSettings(page: string): string {
  if (!MARKS.test(page))
    throw new Error('docs/operating.md has lost its marks <!-- settings --> <!-- end of settings -->');
  return page.replace(MARKS, () => `${tables()}\n`);
}

if (import.meta.main) await writeFile(HANDBOOK, withSettings(await readFile(HANDBOOK, 'utf8')));
