/**
 * Renders documents as a table. On a phone each row is a card, with the heading of its column before each value. The columns are a few
 * properties that distinguish the rows.
 */
import { isBlank } from '#core/text.ts';
import type { Document, Kind, Naming, Property } from '../document.ts';
import type { Markup } from '../markup.ts';
import { dataTable, type Cell, type Column as DataColumn } from './data-table.ts';
import { anchor, hrefOf, linkTo } from './links.ts';
import { cellText, cellValue, fitsCell, isUnset, isState, kindOf } from './property-values.ts';
import { labelOf } from './words.ts';

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
export function isReference({ name, kind }: Pick<Property, 'name' | 'kind'>): boolean {
  return REFERENCE.test(name) || (kind === 'number' && /(?:^|_)id$/.test(name));
}

/** Response codes describe the result of a row as its state does. */
const isCode = ({ name, kind }: Candidate): boolean => kind === 'number' && name.endsWith('_code');

/** Properties that name a document in the first cell. */
const NAME_PROPERTIES = ['name', 'title', 'email', 'id'];

/** `sample` is the first property with a value. */
type Candidate = { name: string; sample: Property; kind: Kind; isConstant: boolean };

function read(documents: readonly Document[]): Candidate[] {
  const columns = new Map<string, Candidate>();
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

function groupOf(column: Candidate): Group {
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

type Column = { name: string; kind: Kind };

const isNumeric = ({ kind }: Column): boolean => kind === 'number' || kind === 'count' || kind === 'money';

const propertyOf = ({ properties }: Document, name: string): Property | undefined =>
  properties.find((property) => property.name === name);

function selfOf(document: Document, naming: Naming): string | undefined {
  const self = linkTo(document, 'self');
  return self === undefined ? undefined : hrefOf(self.href, naming);
}

const textOf = (property: Property | undefined): string =>
  property === undefined || isUnset(property.value) ? '' : cellText(property.value);

/** Returns whether the title contains more than the id. */
const isTitled = (document: Document): boolean =>
  !isBlank(document.title ?? '') && document.title?.endsWith(textOf(propertyOf(document, 'id'))) === false;

/** Returns the name of a document in its row. */
function rowName(document: Document, property: Property | undefined): string {
  const title = document.title ?? '';
  const isNumbered = property?.name === 'id' && isTitled(document);
  const candidates = isNumbered ? [title] : [textOf(property), title];
  const names = [...candidates, textOf(propertyOf(document, 'id'))];
  return names.find((name) => !isBlank(name)) ?? linkTo(document, 'self')?.title ?? labelOf(document.name);
}

function headCell(document: Document, column: Column | undefined, self: string | undefined): Cell {
  const property = column && propertyOf(document, column.name);
  if (self !== undefined) return anchor(self, rowName(document, property));
  return property === undefined ? rowName(document, undefined) : cellValue(property);
}

/** Returns the heading of the first column. */
function headLabel(documents: readonly Document[], head: Column | undefined): string {
  if (head === undefined) return 'Name';
  const [first] = documents;
  const hasTitles =
    head.name === 'id' && documents.every((document) => isTitled(document) && linkTo(document, 'self') !== undefined);
  return hasTitles && first !== undefined ? (first.called ?? labelOf(first.name)) : labelOf(head.name);
}

/** Properties that the row does not show, and that no page of their own shows. */
export type RowDetails = { name: string; properties: readonly Property[]; hasPage: boolean };

function rowDetails(document: Document, columns: readonly Column[], hasPage: boolean): RowDetails {
  const [head] = columns;
  const name = rowName(document, head && propertyOf(document, head.name));
  if (hasPage) return { name, properties: [], hasPage };
  const shown = new Set(columns.map((column) => column.name));
  const properties = document.properties.filter((property) => !shown.has(property.name) || !fitsCell(property));
  return { name, properties, hasPage };
}

/**
 * Renders the table. `label` names the region for screen readers. `more` renders folded details below a row; false
 * without any.
 */
export function table(
  documents: readonly Document[],
  naming: Naming,
  { label, more }: { label: string; more: (document: Document, details: RowDetails) => Markup | false },
): Markup {
  const columns = columnsOf(documents);
  const [head, ...others] = columns;
  const rows = documents.map((document) => {
    const self = selfOf(document, naming);
    const details = rowDetails(document, columns, self !== undefined);
    const content = more(document, details);
    const values = others.map(({ name }) => {
      const property = propertyOf(document, name);
      return property !== undefined && cellValue(property);
    });
    return {
      cells: [headCell(document, head, self), ...values],
      below: content === false ? undefined : { of: details.name, content },
    };
  });
  return dataTable(
    label,
    [
      { name: headLabel(documents, head) },
      ...others.map((column): DataColumn => {
        const name = labelOf(column.name);
        return isNumeric(column) ? { name, kind: 'number' } : { name };
      }),
    ],
    rows.map(({ cells }) => cells),
    { hasRowHeadings: true, isCards: true, below: rows.map(({ below }) => below) },
  );
}
