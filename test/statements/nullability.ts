/** Which columns of a statement can be null, from the tree of the statement after PostgreSQL's analysis (`pg_node_tree`). */

/** `excluded`: a condition of the statement excludes rows with null. `unknown`: of a function, a parameter or a view of PostgreSQL. */
export type Nullability = 'never' | 'excluded' | 'maybe' | 'unknown';

/** What a database knows, by object id. */
export type Catalogue = {
  /** Whether a column of a table is NOT NULL, by `<table>.<number>`. */
  columns: ReadonlyMap<string, boolean>;
  /** The queries of the views of the schema. */
  views: ReadonlyMap<string, Node>;
  functions: ReadonlyMap<string, string>;
  /** Functions that return null for a null argument. */
  strict: ReadonlySet<string>;
  operators: ReadonlyMap<string, string>;
};

type Value = string | Node | readonly Value[];

/** A node of the tree, such as `VAR`, with its fields: words, nodes and lists. A field without a value is ''. */
class Node {
  readonly tag: string;
  readonly #fields: ReadonlyMap<string, Value>;

  constructor(tag: string, fields: ReadonlyMap<string, Value>) {
    this.tag = tag;
    this.#fields = fields;
  }

  text(name: string): string {
    const value = this.#fields.get(name);
    return typeof value === 'string' ? value : '';
  }

  number(name: string): number {
    return Number(this.text(name));
  }

  node(name: string): Node | undefined {
    return this.nodes(name)[0];
  }

  nodes(name: string): Node[] {
    return this.words(name).filter((value) => value instanceof Node);
  }

  words(name: string): readonly Value[] {
    return [this.#fields.get(name) ?? []].flat();
  }
}

/** Returns the query in the text of a tree. Of a field with several words, such as the bytes of a constant, the first is kept. */
export function parseQuery(text: string): Node {
  const tokens = text.matchAll(/[{}()]|"(?:[^"\\]|\\.)*"|(?:\\.|[^\s{}()\\])+/gs);
  const next = (): string => {
    const { value, done } = tokens.next();
    if (done === true) throw new Error('The tree has no end');
    return value[0];
  };
  const read = (token: string): Value => {
    if (token === '(') return Array.from({ [Symbol.iterator]: () => until(')') }, read);
    if (token !== '{') return token === '<>' ? '' : token.replaceAll(/\\(.)/g, '$1');
    const tag = next();
    const fields = new Map<string, Value>();
    let name = '';
    for (const word of { [Symbol.iterator]: () => until('}') }) {
      if (word.startsWith(':')) name = word.slice(1);
      else if (!fields.has(name)) fields.set(name, read(word));
    }
    return new Node(tag, fields);
  };
  function* until(end: string): Generator<string, void> {
    for (let token = next(); token !== end; token = next()) yield token;
  }
  const query = [read(next())].flat(2).find((value) => value instanceof Node);
  if (query?.tag !== 'QUERY') throw new Error('The tree is no query');
  return query;
}

const SUBLINK = { exists: '0', scalar: '4', array: '6' };
const ENTRY = { relation: '0', subquery: '1', join: '2', cte: '6', group: '9' };
const JOIN = { inner: '0', left: '1', right: '3' };
const SELECT = '1';

/** Functions that return null only for null, or never. */
const TOTAL = new Set(
  `array_append array_to_string btrim cardinality ceil clock_timestamp concat current_setting date_trunc decode encode extract floor format
  gen_random_uuid hashtext json_build_object jsonb_build_object left length lower md5 mod nextval now pg_backend_pid pg_export_snapshot pg_is_in_recovery pg_try_advisory_lock quote_ident
  replace right round sha256 string_to_array timezone to_char to_json to_jsonb upper`.split(/\s+/),
);
/** Operators of JSON that return null for a missing member. */
const OPTIONAL = new Set(['->', '->>', '#>', '#>>']);
const COUNTS = new Set(['count', 'row_number', 'rank']);
const COLLECTS = new Set(['array_agg', 'json_agg', 'jsonb_agg', 'string_agg']);
const CASTS = new Set(['RELABELTYPE', 'COERCEVIAIO', 'ARRAYCOERCEEXPR']);
const VALUES = new Set(['NULLTEST', 'BOOLEANTEST', 'DISTINCTEXPR', 'ARRAYEXPR', 'SQLVALUEFUNCTION']);

const WORST_FIRST = ['maybe', 'unknown', 'excluded'] as const;
const worst = (all: readonly Nullability[]): Nullability => WORST_FIRST.find((one) => all.includes(one)) ?? 'never';
const isValue = (one: Nullability): boolean => one === 'never' || one === 'excluded';

/** A query, with the columns that its conditions exclude as null, and the outer joins whose null rows they exclude. */
type Frame = { query: Node; excluded: ReadonlySet<string>; joined: ReadonlySet<Value> };

const keyOf = (column: Node): string => `${column.text('varno')}.${column.text('varattno')}`;
/** The outer joins that make a column null, after the letter of the list. */
const nullingOf = (column: Node): readonly Value[] => column.words('varnullingrels').slice(1);
const isNull = (node: Node | undefined): boolean => node === undefined || node.text('constisnull') === 'true';

/** Returns the conditions that hold for every row: not those of the optional side of an outer join. */
function conditionsOf(tree: Node): Node[] {
  if (tree.tag === 'FROMEXPR') return tree.nodes('fromlist').flatMap(conditionsOf).concat(tree.nodes('quals'));
  if (tree.tag !== 'JOINEXPR') return [];
  const type = tree.text('jointype');
  const sides = [...(type === JOIN.right ? [] : tree.nodes('larg')), ...(type === JOIN.left ? [] : tree.nodes('rarg'))];
  if (type === JOIN.inner) return sides.flatMap(conditionsOf).concat(tree.nodes('quals'));
  return type === JOIN.left || type === JOIN.right ? sides.flatMap(conditionsOf) : [];
}

/** Returns the columns without which an expression is null. */
function operandsOf(node: Node, strict: ReadonlySet<string>): Node[] {
  if (node.tag === 'VAR') return node.text('varlevelsup') === '0' ? [node] : [];
  if (CASTS.has(node.tag)) return node.nodes('arg').flatMap((arg) => operandsOf(arg, strict));
  const isStrict = node.tag === 'OPEXPR' || strict.has(node.text('funcid'));
  return isStrict ? node.nodes('args').flatMap((arg) => operandsOf(arg, strict)) : [];
}

/** Returns the columns that are not null if the condition is true. */
function requiredBy(condition: Node, strict: ReadonlySet<string>): Node[] {
  const args = condition.nodes('args');
  if (condition.text('boolop') === 'and') return args.flatMap((arg) => requiredBy(arg, strict));
  if (condition.text('boolop') === 'not') return args.flatMap((arg) => operandsOf(arg, strict));
  if (condition.text('nulltesttype') === '1') return condition.nodes('arg').flatMap((arg) => operandsOf(arg, strict));
  if (condition.tag === 'SCALARARRAYOPEXPR') return args.slice(0, 1).flatMap((arg) => operandsOf(arg, strict));
  return operandsOf(condition, strict);
}

/** Returns the queries of a UNION, by their numbers. */
const unitedIn = (tree: Node): number[] =>
  tree.tag === 'RANGETBLREF'
    ? [tree.number('rtindex')]
    : [...tree.nodes('larg'), ...tree.nodes('rarg')].flatMap(unitedIn);

function outputsOf(query: Node): Node[] {
  const list = query.nodes(query.text('commandType') === SELECT ? 'targetList' : 'returningList');
  return list.filter((output) => output.text('resjunk') === 'false');
}

/** Returns the names of the columns of a query, and whether each can be null. */
export function columnsOf(query: Node, catalogue: Catalogue): { name: string; nullability: Nullability }[] {
  /** Columns that are being read: a recursive query has what its first part has. */
  const open = new Set<Node | undefined>();
  const functionOf = (node: Node, field: string): string => catalogue.functions.get(node.text(field)) ?? '';

  const ofOutput = (of: Node, number: number, outer: readonly Frame[]): Nullability => {
    const required = of
      .nodes('jointree')
      .flatMap(conditionsOf)
      .flatMap((one) => requiredBy(one, catalogue.strict));
    const frame = { query: of, excluded: new Set(required.map(keyOf)), joined: new Set(required.flatMap(nullingOf)) };
    const united = of.nodes('setOperations').flatMap(unitedIn);
    if (united.length > 0)
      return worst(united.map((at) => ofEntry(of.nodes('rtable')[at - 1], number, [...outer, frame])));
    const output = outputsOf(of)[number - 1];
    if (open.has(output)) return 'never';
    open.add(output);
    const found = ofExpression(output?.node('expr'), [...outer, frame]);
    open.delete(output);
    return found;
  };

  /** Returns the nullability of a column of an entry of FROM. */
  const ofEntry = (entry: Node | undefined, number: number, frames: readonly Frame[]): Nullability => {
    const kind = entry?.text('rtekind');
    if (entry === undefined || number === 0) return 'unknown';
    if (kind === ENTRY.relation) {
      const view = catalogue.views.get(entry.text('relid'));
      if (view !== undefined) return ofOutput(view, number, []);
      // Columns of the system have negative numbers.
      const isRequired = number < 0 || catalogue.columns.get(`${entry.text('relid')}.${number}`);
      return isRequired === undefined ? 'unknown' : isRequired ? 'never' : 'maybe';
    }
    if (kind === ENTRY.join) return ofExpression(entry.nodes('joinaliasvars')[number - 1], frames);
    if (kind === ENTRY.group) return ofExpression(entry.nodes('groupexprs')[number - 1], frames);
    const isNamed = kind === ENTRY.cte;
    const above = isNamed ? frames.slice(0, frames.length - entry.number('ctelevelsup')) : frames;
    const named = above
      .at(-1)
      ?.query.nodes('cteList')
      .find((cte) => cte.text('ctename') === entry.text('ctename'));
    const of = isNamed ? named?.node('ctequery') : entry.node('subquery');
    return of === undefined ? 'unknown' : ofOutput(of, number, above);
  };

  const ofColumn = (column: Node, all: readonly Frame[]): Nullability => {
    const frames = all.slice(0, all.length - column.number('varlevelsup'));
    const frame = frames.at(-1);
    // `old` and `new` of RETURNING are null for rows that were inserted or deleted.
    if (frame === undefined || column.text('varreturningtype') !== '0') return 'unknown';
    if (nullingOf(column).some((join) => !frame.joined.has(join))) return 'maybe';
    const entry = frame.query.nodes('rtable')[column.number('varno') - 1];
    const found = ofEntry(entry, column.number('varattno'), frames);
    return found !== 'never' && frame.excluded.has(keyOf(column)) ? 'excluded' : found;
  };

  const ofAggregate = (node: Node, frames: readonly Frame[]): Nullability => {
    const name = functionOf(node, 'aggfnoid');
    if (COUNTS.has(name)) return 'never';
    const groups = frames.at(-1 - node.number('agglevelsup'))?.query.nodes('groupClause') ?? [];
    // Without GROUP BY there is a group even if there is no row.
    if (groups.length === 0 || node.nodes('aggfilter').length > 0) return 'maybe';
    return COLLECTS.has(name)
      ? 'never'
      : worst(node.nodes('args').map((arg) => ofExpression(arg.node('expr'), frames)));
  };

  const ofSublink = (node: Node, frames: readonly Frame[]): Nullability => {
    const kind = node.text('subLinkType');
    const of = node.node('subselect');
    if (kind === SUBLINK.exists || kind === SUBLINK.array) return 'never';
    if (kind !== SUBLINK.scalar || of === undefined) return 'unknown';
    const found = ofOutput(of, 1, frames);
    // Only of an aggregate it is known that there is a row.
    const hasRow = of.text('hasAggs') === 'true' && of.nodes('groupClause').length === 0;
    return isValue(found) && !hasRow ? 'unknown' : found;
  };

  const ofExpression = (node: Node | undefined, frames: readonly Frame[]): Nullability => {
    if (node === undefined) return 'unknown';
    const { tag } = node;
    if (tag === 'VAR') return ofColumn(node, frames);
    if (tag === 'CONST') return isNull(node) ? 'maybe' : 'never';
    if (tag === 'AGGREF') return ofAggregate(node, frames);
    if (tag === 'SUBLINK') return ofSublink(node, frames);
    if (tag === 'WINDOWFUNC') return COUNTS.has(functionOf(node, 'winfnoid')) ? 'never' : 'unknown';
    if (tag === 'CASEEXPR') {
      const results = node
        .nodes('args')
        .map((when) => when.node('result'))
        .concat(node.node('defresult'));
      const all = results.map((one) => ofExpression(one, frames));
      if (results.some(isNull)) return 'maybe';
      // The condition may exclude null.
      return all.every(isValue) ? worst(all) : 'unknown';
    }
    if (CASTS.has(tag)) return ofExpression(node.node('arg'), frames);
    if (VALUES.has(tag)) return 'never';
    const args = node.nodes('args').map((arg) => ofExpression(arg, frames));
    // `false and null` is false.
    if (tag === 'BOOLEXPR') return args.every(isValue) || node.text('boolop') === 'not' ? worst(args) : 'unknown';
    if (tag === 'COALESCEEXPR' || tag === 'MINMAXEXPR')
      return args.some(isValue) ? 'never' : args.includes('unknown') ? 'unknown' : 'maybe';
    if (tag === 'OPEXPR' || tag === 'SCALARARRAYOPEXPR')
      return OPTIONAL.has(catalogue.operators.get(node.text('opno')) ?? '') ? 'maybe' : worst(args);
    const isTotal = tag === 'FUNCEXPR' && (node.text('funcformat') !== '0' || TOTAL.has(functionOf(node, 'funcid')));
    return isTotal ? worst(args) : 'unknown';
  };

  return outputsOf(query).map((output, at) => ({
    name: output.text('resname'),
    nullability: ofOutput(query, at + 1, []),
  }));
}
