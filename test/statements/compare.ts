/** Compares the columns of a statement with its declared row type. */
import { TypeFlags, type Checker, type Type } from 'typescript/unstable/sync';
import type { Column } from './describe.ts';

/** Returns the kinds of values that a type admits, with `null` and `undefined`. Other objects are `json`. */
function kindsOf(checker: Checker, type: Type): string[] {
  if (type.isUnionType()) return type.getTypes().flatMap((of) => kindsOf(checker, of));
  const is = (flag: TypeFlags): boolean => (type.flags & flag) > 0;
  if (is(TypeFlags.Null)) return ['null'];
  if (is(TypeFlags.Undefined)) return ['undefined'];
  if (is(TypeFlags.StringLike)) return ['string'];
  if (is(TypeFlags.NumberLike)) return ['number'];
  if (is(TypeFlags.BooleanLike)) return ['boolean'];
  // `string & {}`, and columns that a second type narrows.
  if (type.isIntersectionType())
    return type
      .getTypes()
      .slice(0, 1)
      .flatMap((of) => kindsOf(checker, of));
  const name = type.getSymbol()?.name;
  if (name === 'Date' || name === 'Buffer') return [name];
  if (!checker.isArrayType(type) || !type.isTypeReference()) return ['json'];
  const elements = checker.getTypeArguments(type).flatMap((of) => kindsOf(checker, of));
  return elements.flatMap((kind) => (kind === 'null' ? [] : [`${kind}[]`]));
}

/** `isVariant`: some members of the union lack it, so that another column decides whether it is null. */
type Declared = { kinds: ReadonlySet<string>; isVariant: boolean };

function declaredIn(checker: Checker, row: Type): Map<string, Declared> {
  const members = row.isUnionType() ? row.getTypes() : [row];
  const symbols = members.flatMap((member) => checker.getPropertiesOfType(member));
  return new Map(
    [...Map.groupBy(symbols, ({ name }) => name)].map(([name, same]) => {
      const types = same.flatMap((symbol) => checker.getTypeOfSymbol(symbol) ?? []);
      const kinds = new Set(types.flatMap((type) => kindsOf(checker, type)));
      return [name, { kinds, isVariant: same.length < members.length }];
    }),
  );
}

/** Values that JSON does not have. */
const NOT_JSON = new Set(['Date', 'Buffer']);

function faultOf({ kind, nullability }: Column, { kinds, isVariant }: Declared): string | undefined {
  const accepted = new Set(['null', 'undefined', kind]);
  const others = [...kinds].filter((one) => (kind === 'json' ? NOT_JSON.has(one) : !accepted.has(one)));
  if (others.length > 0) return `is ${kind}, declared as ${others.join(' | ')}`;
  if (isVariant) return undefined;
  if (nullability === 'maybe' && !kinds.has('null')) return 'may be null';
  return nullability === 'never' && kinds.has('null') ? 'is never null' : undefined;
}

/** Returns each column that is described or declared, with what differs. `isKnown`: whether NULL was compared. */
export function compare(
  checker: Checker,
  row: Type,
  columns: readonly Column[],
): { column: string; isKnown: boolean; fault: string | undefined }[] {
  const declared = declaredIn(checker, row);
  // Columns whose names are chosen at run time have one type together.
  const [index] = checker.getIndexInfosOfType(row);
  const chosen = index && new Set(kindsOf(checker, index.valueType));
  const undeclared = ({ kind }: Column) => (chosen?.has(kind) === true ? undefined : 'is not declared');
  const described = columns.map((column, at) => {
    const of = declared.get(column.name);
    const isRepeated = columns.findIndex(({ name }) => name === column.name) < at;
    const fault = isRepeated ? 'is selected twice' : of === undefined ? undeclared(column) : faultOf(column, of);
    return { column: column.name, isKnown: column.nullability !== 'unknown' && of?.isVariant === false, fault };
  });
  const names = new Set(columns.map(({ name }) => name));
  const missing = [...declared].filter(([name, { kinds }]) => !names.has(name) && !kinds.has('undefined'));
  return described.concat(missing.map(([column]) => ({ column, isKnown: false, fault: 'is not selected' })));
}
