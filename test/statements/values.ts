/** Makes values of TypeScript types: the arguments of functions, and the rows that their statements return. */
import { join } from 'node:path';
import type { Filter } from '#core/listing.ts';
import { Json } from '#db/statement.ts';
import { SignatureKind, TypeFlags, type Checker, type Symbol as Named, type Type } from 'typescript/unstable/sync';
import { ROOT } from './program.ts';

/** Returns the number of one of so many alternatives, of which the first has the most content. */
export type Choose = (alternatives: number) => number;
export type Make = (choose: Choose, depth?: number) => unknown;

/** Types that contain themselves end at this depth. */
const MAX_DEPTH = 7;
/** The table of statements whose table is a parameter; its name is that of a partition. */
export const TABLE = 'event_d1';
/** The table of a shop. */
export const OUTBOX = 'halcyon_outbox';
const AT = new Date('2026-11-28T12:00:00Z');
const POOLS: ReadonlySet<string | undefined> = new Set(['Queryable', 'Sql', 'Tx', 'Reserved']);
/** Filters of properties that the lists have. */
const FILTERS: readonly Filter[] = [
  { property: 'date_created', operator: 'is', value: AT },
  { property: 'resource_id', operator: 'is', value: '1' },
  { property: 'date_created', operator: 'lessthan', value: AT },
  { property: 'date_created', operator: 'in', value: [{ property: 'date_created', operator: 'is', value: AT }] },
];
/** Tables with sealed columns (db/sealed-tables.ts): together their keys have every type. */
const SEALED = [
  {
    name: 'versions',
    seals: 'webhook_version',
    key: { shard: 'smallint', webhook_id: 'bigint', revision: 'integer' },
    columns: ['request_secrets'],
    boundTo: () => '',
  },
  {
    name: 'responses',
    seals: 'idempotency_key',
    key: { scope: 'bytea' },
    columns: ['answer'],
    boundTo: () => '',
  },
];
/** The values of properties and parameters of these names, of which functions do not accept all texts and numbers. */
const NAMED: Readonly<Record<string, readonly unknown[]>> = {
  property: ['date_created'],
  total: [100],
  name: [TABLE],
  table: [TABLE],
  outbox: [OUTBOX],
  dead: [`${OUTBOX}_dead`],
  schema: ['public'],
  timeZone: ['Europe/Berlin'],
  migrations: [join(ROOT, 'migrations')],
  folder: [join(ROOT, 'migrations')],
};

/** Returns the place of a member of a union: null, undefined and false come last. */
function rankOf(type: Type): number {
  if ((type.flags & (TypeFlags.Null | TypeFlags.Undefined | TypeFlags.Void)) > 0) return 2;
  return type.isBooleanLiteralType() && !type.value ? 1 : 0;
}

/** Returns functions that make values of types and properties; `pool` returns the pool that the values contain. */
export function makersOf(checker: Checker, pool: () => unknown) {
  const makers = new Map<number, Make>();

  const functionOf = (type: Type): Make => {
    const [signature] = checker.getSignaturesOfType(type, SignatureKind.Call);
    const result = signature && checker.getReturnTypeOfSignature(signature);
    return (choose) => () => result && makerOf(result)(choose, 1);
  };

  const propertyOf = (symbol: Named): Make => {
    const type = checker.getTypeOfSymbol(symbol);
    const named = NAMED[symbol.name];
    if (named !== undefined && type && (type.flags & (TypeFlags.String | TypeFlags.Number)) > 0)
      return (choose) => named[choose(named.length)];
    return type === undefined ? () => undefined : makerOf(type);
  };

  const objectOf = (type: Type): Make => {
    const name = type.getSymbol()?.name ?? '';
    const [first, second] = (type.isTypeReference() ? checker.getTypeArguments(type) : []).map((of) => makerOf(of));
    if (POOLS.has(name)) return pool;
    if (name === 'Date') return () => AT;
    if (name === 'Buffer' || name === 'Uint8Array') return () => Buffer.alloc(32, 1);
    if (name === 'Json') return () => new Json({});
    if (name === 'AbortSignal') return () => new AbortController().signal;
    if (name === 'Promise') return async (choose, depth) => first?.(choose, depth);
    if (name.endsWith('Set')) return (choose, depth) => new Set([first?.(choose, depth)]);
    if (name.endsWith('Map')) {
      return (choose, depth) => new Map(choose(2) === 0 ? [[first?.(choose, depth), second?.(choose, depth)]] : []);
    }
    if (checker.isTupleType(type)) {
      const elements = type.isTypeReference() ? checker.getTypeArguments(type).map((of) => makerOf(of)) : [];
      return (choose, depth) => elements.map((element) => element(choose, depth));
    }
    if (checker.isArrayType(type)) return (choose, depth) => (choose(2) === 0 ? [first?.(choose, depth)] : []);
    if (checker.getSignaturesOfType(type, SignatureKind.Call).length > 0) return functionOf(type);
    const properties = checker
      .getPropertiesOfType(type)
      .filter((symbol) => !symbol.name.startsWith('__'))
      .map((symbol) => [symbol.name, propertyOf(symbol)] as const);
    const [index] = properties.length === 0 ? checker.getIndexInfosOfType(type) : [];
    if (index !== undefined) properties.push(['1', makerOf(index.valueType)]);
    return (choose, depth) => Object.fromEntries(properties.map(([key, make]) => [key, make(choose, depth)]));
  };

  const compile = (type: Type): Make => {
    const { flags } = type;
    if (type.getAliasSymbol()?.name === 'Filter') return (choose) => FILTERS[choose(FILTERS.length)];
    if (type.getAliasSymbol()?.name === 'SealedTable') return (choose) => SEALED[choose(SEALED.length)];
    if (type.isUnionType()) {
      const members = type
        .getTypes()
        .toSorted((a, b) => rankOf(a) - rankOf(b))
        .map((of) => makerOf(of));
      return (choose, depth) => members[choose(members.length)]?.(choose, depth);
    }
    if (type.isLiteralType()) return () => type.value;
    if ((flags & TypeFlags.Null) > 0) return () => null;
    if ((flags & (TypeFlags.String | TypeFlags.TemplateLiteral)) > 0) return () => '1';
    if ((flags & TypeFlags.Number) > 0) return () => 1;
    if ((flags & TypeFlags.BigInt) > 0) return () => 1n;
    if (type.isTypeParameter()) {
      const constraint = checker.getBaseConstraintOfType(type);
      return constraint === undefined ? () => ({}) : makerOf(constraint);
    }
    return type.isObjectType() || type.isIntersectionType() ? objectOf(type) : () => undefined;
  };

  const makerOf = (type: Type): Make => {
    const known = makers.get(type.id);
    if (known !== undefined) return known;
    let compiled: Make | undefined;
    const make: Make = (choose, above = 0) =>
      above >= MAX_DEPTH ? undefined : (compiled ??= compile(type))(choose, above + 1);
    makers.set(type.id, make);
    return make;
  };
  return { makerOf, propertyOf };
}
