/** Which properties of several documents are the columns of their table: a few that tell them apart at a glance. */
import type { Document, Kind, Property } from '../document.ts';
import { isState, isUnset, kindOf } from './values.ts';

/** Beside what the rows are called: one more than usual where that is a mere number. */
const BESIDE_NAME_MAX = 5;
const BESIDE_ID_MAX = 6;
const TELLING_ENOUGH = 2;

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

/** What is taken first, as far as there is any; then whatever is left, and only where there is room still the `last`. */
const ORDER =
  'state code trend measure measure money word date url word text flag number money text number date text text'.split(
    ' ',
  ) as Group[];

/** Kinds that are no columns have no group. */
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

/** What something else is about: our number of it says nothing to people, and its kind mostly stands in another column, too. */
const REFERENCE = /(?:^|_)(?:type|version)$/;
const isReference = ({ name, kind }: Column): boolean =>
  REFERENCE.test(name) || (kind === 'number' && /(?:^|_)id$/.test(name));

/** What came back, as a number: it tells how the row fares as its state does. */
const isCode = ({ name, kind }: Column): boolean => kind === 'number' && name.endsWith('_code');

/** What a document is called, in its first cell. */
const HEADS = ['name', 'title', 'email', 'id'];

/** `sample` is the first that has a value. */
type Column = { name: string; sample: Property; kind: Kind; isConstant: boolean };

const read = (documents: readonly Document[]): Column[] => {
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
};

const groupOf = (column: Column): Group => {
  if (isState(column.sample)) return 'state';
  if (isCode(column)) return 'code';
  // Why they fail is asked of all of them at once most of all where it is the same.
  if (column.name === 'reason') return 'text';
  // Nobody looks at a measure for whether it tells rows apart.
  if (column.kind === 'number' && column.sample.unit !== undefined) return 'measure';
  return column.isConstant || isReference(column) ? 'last' : (GROUPS[column.kind] ?? 'last');
};

/**
 * The columns of a table, seven at most: what they are called, how they fare (on a phone no more is seen at once), then the
 * others in the order in which the documents have them. What no document has, and what does not fit a cell, has none.
 */
export const columnsOf = (documents: readonly Document[]): { name: string; kind: Kind }[] => {
  const columns = read(documents);
  const head = HEADS.map((name) => columns.find((column) => column.name === name)).find(
    (column) => column !== undefined,
  );
  const others = columns.filter((column) => column !== head);
  const waiting = Map.groupBy(others, groupOf);
  const preferred = ORDER.flatMap((group) => waiting.get(group)?.shift() ?? []);
  // A trend is as narrow as a word.
  const wide = columns.some(({ kind }) => kind === 'trend') ? 1 : 0;
  const room = wide + (head === undefined || head.name === 'id' ? BESIDE_ID_MAX : BESIDE_NAME_MAX);
  const telling = others.filter((column) => groupOf(column) !== 'last');
  // A reference is a number more than the row is told by, where others tell enough.
  const further = telling.length >= TELLING_ENOUGH ? others.filter((column) => !isReference(column)) : others;
  const taken = [...new Set([...preferred, ...telling, ...further])]
    .filter((one) => further.includes(one))
    .slice(0, room);
  const states = ['state', 'code'].flatMap((group) => taken.filter((column) => groupOf(column) === group));
  const rest = others.filter((column) => taken.includes(column) && !states.includes(column));
  return [...(head === undefined ? [] : [head]), ...states, ...rest];
};
