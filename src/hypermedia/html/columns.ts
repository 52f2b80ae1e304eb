/** Selects the columns of a table: a few properties that distinguish the rows. */
import type { Document, Kind, Property } from '../document.ts';
import { isState, isUnset, kindOf } from './values.ts';

/** Columns beside the first one: one more than usual if the first one is only a number. */
const COLUMNS_BESIDE_NAME_MAX = 5;
const COLUMNS_BESIDE_ID_MAX = 6;
const DISTINGUISHING_ENOUGH = 2;

type Group =
  | 'state'
  | 'code'
  | 'trend'
  | 'measure'
  | 'flag'
  | 'word'
  | 'text'
  | 'money'
  | 'date'
  | 'url'
  | 'number'
  | 'last';

/**
 * Order of selection, as far as columns of each group exist; then the remaining columns, and `last` ones only if there
 * is space.
 */
const ORDER =
  'state code trend measure measure money word date url word text flag number money text number date text text'.split(
    ' ',
  ) as Group[];

/** Kinds without a group are not columns. */
const GROUPS: Readonly<Partial<Record<Kind, Group>>> = {
  enumeration: 'word',
  boolean: 'flag',
  text: 'text',
  money: 'money',
  date: 'date',
  url: 'url',
  number: 'number',
  count: 'number',
  trend: 'trend',
  progress: 'number',
};

/**
 * References to other resources: their numeric id means nothing to people, and their type is usually in another column.
 */
const REFERENCE = /(?:^|_)(?:type|version)$/;
const isReference = ({ name, kind }: Column): boolean =>
  REFERENCE.test(name) || (kind === 'number' && /(?:^|_)id$/.test(name));

/** Response codes describe the result of a row as its state does. */
const isCode = ({ name, kind }: Column): boolean => kind === 'number' && name.endsWith('_code');

/** Properties that name a document in the first cell. */
const NAME_PROPERTIES = ['name', 'title', 'email', 'id'];

/** `sample` is the first property with a value. */
type Column = { name: string; sample: Property; kind: Kind; isConstant: boolean };

function read(documents: readonly Document[]): Column[] {
  const columns = new Map<string, Column>();
  for (const { properties } of documents) {
    for (const property of properties) {
      const { name, value } = property;
      const column = columns.get(name);
      if (column === undefined || (isUnset(column.sample.value) && !isUnset(value))) {
        const isConstant = column === undefined && documents.length > 1;
        columns.set(name, { name, sample: property, kind: kindOf(property), isConstant });
      } else if (value !== column.sample.value) column.isConstant = false;
    }
  }
  return [...columns.values()].filter(({ sample, kind }) => !isUnset(sample.value) && GROUPS[kind] !== undefined);
}

function groupOf(column: Column): Group {
  if (isState(column.sample)) return 'state';
  if (isCode(column)) return 'code';
  // A reason is shown even if it is the same in all rows.
  if (column.name === 'reason') return 'text';
  // Measures are shown even if they do not distinguish rows.
  if (column.kind === 'number' && column.sample.unit !== undefined) return 'measure';
  return column.isConstant || isReference(column) ? 'last' : (GROUPS[column.kind] ?? 'last');
}

/**
 * Returns the columns of a table, seven at most: name and state first (a phone shows no more at once), then the others
 * in the order of the documents. Properties without a value, and values that do not fit a cell, have no column.
 */
export function columnsOf(documents: readonly Document[]): { name: string; kind: Kind }[] {
  const columns = read(documents);
  const head = NAME_PROPERTIES.map((name) => columns.find((column) => column.name === name)).find(
    (column) => column !== undefined,
  );
  const others = columns.filter((column) => column !== head);
  const groups = Map.groupBy(others, groupOf);
  const preferred = ORDER.flatMap((group) => groups.get(group)?.shift() ?? []);
  // A trend is narrow, so it permits one more column.
  const extraColumns = columns.some(({ kind }) => kind === 'trend') ? 1 : 0;
  const columnsMax =
    extraColumns + (head === undefined || head.name === 'id' ? COLUMNS_BESIDE_ID_MAX : COLUMNS_BESIDE_NAME_MAX);
  const distinguishing = others.filter((column) => groupOf(column) !== 'last');
  // References are omitted if other columns distinguish the rows.
  const candidates =
    distinguishing.length >= DISTINGUISHING_ENOUGH ? others.filter((column) => !isReference(column)) : others;
  const selected = [...new Set([...preferred, ...distinguishing, ...candidates])]
    .filter((column) => candidates.includes(column))
    .slice(0, columnsMax);
  const states = ['state', 'code'].flatMap((group) => selected.filter((column) => groupOf(column) === group));
  const rest = others.filter((column) => selected.includes(column) && !states.includes(column));
  return [...(head === undefined ? [] : [head]), ...states, ...rest];
}
