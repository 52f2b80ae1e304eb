/** Which properties of several documents are the columns of their table: a few that tell them apart at a glance. */
import type { Document, Kind, Property } from '../document.ts';
import { isState, isUnset, kindOf } from './values.ts';

const COLUMNS_MAX = 6;

type Group = 'state' | 'flag' | 'word' | 'text' | 'money' | 'date' | 'url' | 'number' | 'last';

/** What is taken first, as far as there is any; then whatever is left. */
const ORDER = 'state money word date url word text flag number money text number date text text'.split(' ') as Group[];

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
};

/** What something else is about: the number says nothing to people, and the kind mostly stands in another column, too. */
const REFERENCE = /(?:^|_)(?:id|type|version)$/;

/** What a document is called, in its first cell. */
const HEADS = ['name', 'title', 'id'];

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

const groupOf = ({ name, sample, kind, isConstant }: Column): Group => {
  if (isState(sample)) return 'state';
  return isConstant || REFERENCE.test(name) ? 'last' : (GROUPS[kind] ?? 'last');
};

/**
 * The columns of a table, six at most: what they are called, how they fare (on a phone no more is seen at once), then the
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
  const room = head === undefined ? COLUMNS_MAX : COLUMNS_MAX - 1;
  const taken = [...new Set([...preferred, ...others])].slice(0, room);
  const states = taken.filter((column) => groupOf(column) === 'state');
  const rest = others.filter((column) => taken.includes(column) && !states.includes(column));
  return [...(head === undefined ? [] : [head]), ...states, ...rest];
};
