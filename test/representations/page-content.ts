/**
 * Compares a page with the HAL answer of the same resource: each value is in the list of properties under its label, else
 * anywhere in the page, for example in the heading. A row of a table is compared only in its columns.
 */

type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json };
type Members = { readonly [name: string]: Json };

const entities: Readonly<Record<string, string>> = { quot: '"', '#39': "'", lt: '<', gt: '>', amp: '&' };

const decoded = (markup: string): string =>
  markup.replaceAll(/&(quot|#39|lt|gt|amp);/g, (_, name: string) => entities[name] ?? '');

/** Returns a text in the form in which names, phrases and values are equal: `store_id` and `Store ID`. */
const plain = (text: string): string =>
  text
    .replaceAll(/[\s_]+/g, ' ')
    .trim()
    .toLowerCase();

/** Returns the text of markup, with the exact date of each `time` element, which shows another form of it. */
const textOf = (markup: string): string =>
  plain(decoded(markup.replaceAll(/<time datetime="([^"]*)"/g, '$1 <time').replaceAll(/<[^>]*>/g, ' ')));

/** The texts beside each label. */
type Shown = ReadonlyMap<string, readonly string[]>;

function shownBy(markup: string, pattern: RegExp): Shown {
  const found = markup.matchAll(pattern).map(([, label = '', value = '']) => [textOf(label), textOf(value)] as const);
  const groups = Map.groupBy(found, ([label]) => label);
  return new Map([...groups].map(([label, pairs]) => [label, pairs.map(([, value]) => value)]));
}

const propertiesIn = (markup: string): Shown => shownBy(markup, /<dt[^>]*>([^]*?)<\/dt>\s*<dd[^>]*>([^]*?)<\/dd>/g);

const cellsIn = (row: string): Shown => shownBy(row, /<td[^>]* data-label="([^"]*)"[^>]*>([^]*?)<\/td>/g);

/** A cell has at least this part of a long text. */
const SHORTENED_CHARACTERS = 50;
/** A value that is so short must be a word of its own. */
const SHORT = /^[a-z\d]{1,3}$/;

const hasWord = (text: string, word: string): boolean =>
  SHORT.test(word) ? text.split(/[^a-z\d]+/).includes(word) : text.includes(word);

/** Returns whether a text has the value, or `Yes` and `No` for a boolean. */
function shows(text: string, value: Json): boolean {
  if (value === null || value === '') return true;
  if (typeof value === 'object') return Object.values(value as Members).every((one) => shows(text, one));
  const words = [plain(String(value)).slice(0, SHORTENED_CHARACTERS)];
  if (['1', 'true'].includes(String(value))) words.push('yes');
  if (['0', 'false'].includes(String(value))) words.push('no');
  return words.some((word) => hasWord(text, word));
}

/** Pages have the counts of a collection in a sentence and in links, and round durations, which differ from run to run. */
const OTHERWISE_SHOWN = /^(?:total_items|returned_items|limit|offset|duration_\w+)$/;

const ownOf = (object: Members): [name: string, value: Json][] =>
  Object.entries(object).filter(([name]) => !name.startsWith('_') && !OTHERWISE_SHOWN.test(name));

const childrenOf = ({ _embedded = {} }: Members): Members[] =>
  Object.values(_embedded as Record<string, Members | Members[] | null>).flatMap((one): readonly Members[] =>
    one === null ? [] : [one].flat(),
  );

/** Returns the names of the properties, also of embedded resources, whose value the page does not show. */
export function missingInPage(html: string, hal: string): string[] {
  const main = /<main[^]*<\/main>/.exec(html)?.[0] ?? '';
  const [page, listed] = [textOf(main), propertiesIn(main)];
  const isShown = ([name, value]: [string, Json]): boolean => {
    // A list within the list would end the text of a structure.
    const isStructure = typeof value === 'object' && value !== null && !Array.isArray(value);
    const texts = isStructure ? [page] : (listed.get(plain(name)) ?? [page]);
    return texts.some((text) => shows(text, value));
  };
  const isInRow = (row: string) => {
    const cells = cellsIn(row);
    return ([name, value]: [string, Json]) => (cells.get(plain(name)) ?? []).every((text) => shows(text, value));
  };
  const root = JSON.parse(hal) as Members;
  const children = childrenOf(root);
  const rows = [...main.matchAll(/<tr>\s*<t[hd] [^]*?<\/tr>/g)].flatMap(([row]) =>
    row.includes('data-label') ? [row] : [],
  );
  const isTable = rows.length > 0 && rows.length === children.length;
  const missing = [
    ...ownOf(root).filter((property) => !isShown(property)),
    ...children.flatMap((child, at) => {
      const isShownHere = isTable ? isInRow(rows[at] ?? '') : isShown;
      return ownOf(child).filter((property) => !isShownHere(property));
    }),
  ];
  return [...new Set(missing.map(([name]) => name))];
}
