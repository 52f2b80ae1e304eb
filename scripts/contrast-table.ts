/** Writes the contrasts of the colours of hypermedia/style.ts into src/hypermedia/README.md: `node scripts/contrast-table.ts`. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { contrastOf, TEXT_CONTRAST } from '#config/brand.ts';
import { style } from '#hypermedia/style.ts';

export const DESIGN_PAGE = join(import.meta.dirname, '../src/hypermedia/README.md');
const MARKS = /(?<=<!-- contrasts\b[^>]*-->\n).*?(?=<!-- end of contrasts -->)/s;

/** The least contrast of the borders of fields (WCAG 2.2, 1.4.11). */
const BORDER_CONTRAST = 3;

/** Every pair of colours in which one is read on the other: the upper one, what it is for, and the lower ones. */
const PAIRS: readonly (readonly [upper: string, use: string, lower: readonly string[], least?: number])[] = [
  ['ink', 'text', ['card', 'paper']],
  ['soft', 'less important text, labels, quiet badges', ['card', 'paper']],
  ['accent', 'links, quiet buttons', ['card', 'paper']],
  ['on-accent', 'text of buttons', ['accent']],
  ['good', 'success', ['good-paper']],
  ['warn', 'needs attention', ['warn-paper']],
  ['bad', 'failure', ['bad-paper', 'card']],
  ['card', 'text of dangerous buttons', ['bad']],
  ['edge', 'borders of fields', ['card'], BORDER_CONTRAST],
];

export type Colors = Readonly<Record<string, string>>;

const longForm = (color: string): string =>
  color.length === 4 ? `#${color.slice(1).replaceAll(/./g, '$&$&')}` : color;

function colorsIn(rules: string | undefined): Colors {
  const found = [...(rules ?? '').matchAll(/--([a-z-]+):(#[0-9a-f]{3,6})\b/g)];
  return Object.fromEntries(found.map(([, name = '', color = '']) => [name, longForm(color)]));
}

/** Returns the colours of both modes, by role. */
export function colorsOf(css: string): { light: Colors; dark: Colors } {
  const light = colorsIn(/^:root\{[^}]*\}/m.exec(css)?.[0]);
  const dark = colorsIn(/prefers-color-scheme:dark\)\{:root\{[^}]*\}/.exec(css)?.[0]);
  return { light, dark: { ...light, ...dark } };
}

function colorIn(colors: Colors, name: string): string {
  const color = colors[name];
  if (color === undefined) throw new Error(`src/hypermedia/style.ts has no colour --${name}`);
  return color;
}

/** Returns each pair with its contrast in both modes and the contrast that it needs. */
export function contrastsOf(css: string) {
  const { light, dark } = colorsOf(css);
  return PAIRS.flatMap(([upper, use, lowers, least = TEXT_CONTRAST]) =>
    lowers.map((lower) => {
      const contrastIn = (colors: Colors) => contrastOf(colorIn(colors, upper), colorIn(colors, lower));
      const colors = [colorIn(light, upper), colorIn(dark, upper)];
      return { upper, lower, use, least, colors, light: contrastIn(light), dark: contrastIn(dark) };
    }),
  );
}

const HEAD = '| colour | for | on | light | contrast | dark | contrast | needed |\n|---|---|---|---|---|---|---|---|\n';

function table(): string {
  const rows = contrastsOf(style).map(({ upper, lower, use, least, colors, light, dark }) => {
    const [inLight, inDark] = colors;
    return `| \`--${upper}\` | ${use} | \`--${lower}\` | \`${inLight}\` | ${light.toFixed(1)} | \`${inDark}\` | ${dark.toFixed(1)} | ${least} |\n`;
  });
  return `\n${HEAD}${rows.join('')}\n`;
}

/** The page with the table as it has to be; everything else as it is. */
export function withContrasts(page: string): string {
  if (!MARKS.test(page))
    throw new Error('src/hypermedia/README.md has lost its marks <!-- contrasts --> <!-- end of contrasts -->');
  return page.replace(MARKS, table);
}

if (import.meta.main) await writeFile(DESIGN_PAGE, withContrasts(await readFile(DESIGN_PAGE, 'utf8')));
