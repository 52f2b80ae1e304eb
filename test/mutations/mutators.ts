/**
 * Generates mutations of TypeScript code: the usual operators of mutation tests, as Stryker names them, and the deletion of
 * statements. Types, imports, log messages and the texts of errors are not mutated, and no `await` is removed.
 */
import { parseSync } from 'oxc-parser';
import { sqlMutants } from './sql-mutators.ts';
import { mutate, type Edit } from './table.ts';

type Node = { type: string; start: number; end: number } & Record<string, unknown>;
type Emit = (at: { start: number; end: number }, text: string) => void;
type Context = { source: string; parent: Node; emit: Emit };

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as { type?: unknown }).type === 'string';
const child = (node: Node, name: string): Node => {
  const found = node[name];
  if (!isNode(found)) throw new TypeError(`${node.type} has no ${name}`);
  return found;
};
const childrenOf = (node: Node): Node[] => Object.values(node).flat().filter(isNode);

/** Returns a map of each word of a pair to the other one. */
const bothWays = (pairs: readonly string[]): Map<string, string> =>
  new Map(
    pairs.flatMap((pair) => {
      const [one = '', other = ''] = pair.split(' ');
      return [[one, other] as const, [other, one] as const];
    }),
  );

const OPERATORS = bothWays(['=== !==', '< <=', '> >=', '+ -', '* /', '&& ||', '+= -=', '*= /=', '++ --'])
  .set('%', '*')
  .set('??=', '=')
  .set('||=', '=')
  .set('&&=', '=');
const METHODS = bothWays(['some every', 'min max', 'floor ceil', 'startsWith endsWith', 'toLowerCase toUpperCase']);
/** The call is removed, and its object stays. */
const REMOVED_CALLS = new Set(['filter', 'toSorted', 'sort', 'toReversed', 'reverse', 'slice', 'trim']);

const LOG = /(?:^|\.)(?:log|logger|console)\.(?:trace|debug|info|log|warn|error|fatal)$/;
const BOOLEAN_OPERATORS = /^(?:[=!]==?|[<>]=?|in|instanceof)$/;

const textOf = ({ source }: Context, { start, end }: Node): string => source.slice(start, end);
const isText = (node: Node): boolean =>
  node.type === 'TemplateLiteral' || (node.type === 'Literal' && typeof node['value'] === 'string');

/** Of `node`, the operator of `left` and `right`. */
function operatorAt({ source }: Context, node: Node): { start: number; end: number } {
  const operator = String(node['operator']);
  const start = source.indexOf(operator, child(node, 'left').end);
  return { start, end: start + operator.length };
}

function isBoolean(node: Node): boolean {
  if (node.type === 'ParenthesizedExpression') return isBoolean(child(node, 'expression'));
  if (node.type === 'LogicalExpression') return isBoolean(child(node, 'left')) && isBoolean(child(node, 'right'));
  const operator = String(node['operator']);
  return (
    (node.type === 'BinaryExpression' && BOOLEAN_OPERATORS.test(operator)) ||
    (node.type === 'UnaryExpression' && operator === '!')
  );
}

/** A statement that is the whole body of an `if` or a loop needs a `;` in its place. */
function removeStatement(node: Node, { parent, emit }: Context): void {
  const isInList = ['BlockStatement', 'Program', 'StaticBlock', 'SwitchCase'].includes(parent.type);
  emit(node, isInList ? '' : ';');
}

/** An object literal would begin a block where it replaces the body of an arrow function. */
const replaceBy = (node: Node, by: Node, context: Context): void => {
  const text = textOf(context, by);
  context.emit(node, text.startsWith('{') ? `(${text})` : text);
};

function replaceOperator(node: Node, context: Context): void {
  const other = OPERATORS.get(String(node['operator']));
  if (other !== undefined) context.emit(operatorAt(context, node), other);
}

function mutateReturned(value: Node, { emit }: Context): void {
  if (!isBoolean(value)) return;
  emit(value, 'true');
  emit(value, 'false');
}

function mutateCondition(node: Node, { emit }: Context): void {
  const test = node['test'];
  if (!isNode(test) || test.type === 'Literal') return;
  emit(test, 'false');
  if (node.type === 'IfStatement') emit(test, 'true');
}

function mutateEmptyable(node: Node, empty: string, members: unknown, context: Context): void {
  if (Array.isArray(members) && members.length > 0) context.emit(node, empty);
}

const MUTATORS: Readonly<Record<string, (node: Node, context: Context) => void>> = {
  IfStatement: (node, context) => {
    if (node['alternate'] !== null) return mutateCondition(node, context);
    context.emit(child(node, 'test'), 'true');
    removeStatement(node, context);
  },
  WhileStatement: mutateCondition,
  DoWhileStatement: mutateCondition,
  ForStatement: mutateCondition,
  ConditionalExpression: (node, context) => {
    for (const branch of ['consequent', 'alternate']) replaceBy(node, child(node, branch), context);
  },
  LogicalExpression: (node, context) => {
    replaceOperator(node, context);
    for (const side of ['left', 'right']) replaceBy(node, child(node, side), context);
  },
  BinaryExpression: (node, context) => {
    const isConcatenation =
      node['operator'] === '+' && [node['left'], node['right']].some((one) => isText(one as Node));
    if (!isConcatenation) replaceOperator(node, context);
  },
  AssignmentExpression: replaceOperator,
  UpdateExpression: (node, { emit }) => {
    const start = node['prefix'] === true ? node.start : node.end - 2;
    emit({ start, end: start + 2 }, OPERATORS.get(String(node['operator'])) ?? '');
  },
  UnaryExpression: (node, context) => {
    if (node['operator'] === '!' || node['operator'] === '-') replaceBy(node, child(node, 'argument'), context);
  },
  ExpressionStatement: (node, context) => {
    const isDirective = typeof node['directive'] === 'string';
    const isSuper = textOf(context, node).startsWith('super(');
    if (!isDirective && !isSuper) removeStatement(node, context);
  },
  BlockStatement: (node, context) => {
    // With one statement it is the same as the deletion of this.
    if (Array.isArray(node['body']) && node['body'].length > 1) context.emit(node, '{}');
  },
  SwitchCase: ({ consequent }, { emit }) => {
    const statements = consequent as Node[];
    const [first, last] = [statements[0], statements.at(-1)];
    if (first !== undefined && last !== undefined) emit({ start: first.start, end: last.end }, '');
  },
  ReturnStatement: (node, context) => {
    const value = node['argument'];
    if (!isNode(value)) return;
    if (isBoolean(value)) mutateReturned(value, context);
    else if (value.type !== 'Literal' && textOf(context, value) !== 'undefined') context.emit(node, 'return;');
  },
  ArrowFunctionExpression: (node, context) => mutateReturned(child(node, 'body'), context),
  Literal: ({ value, ...node }, { parent, emit }) => {
    // The other mutations of these have the same effects.
    if (parent.type === 'UnaryExpression' || /^(?:[=!]==?|[+-]=)$/.test(String(parent['operator']))) return;
    if (typeof value === 'boolean') emit(node, String(!value));
    else if (typeof value === 'string') emit(node, value === '' ? "'mutated'" : "''");
    else if (typeof value === 'number') emit(node, value === 1 ? '0' : String(value + 1));
  },
  TemplateLiteral: (node, { source, emit }) => {
    if (source.slice(node.start, node.end) !== '``') emit(node, '``');
  },
  ArrayExpression: (node, context) => mutateEmptyable(node, '[]', node['elements'], context),
  ObjectExpression: (node, context) => mutateEmptyable(node, '{}', node['properties'], context),
  MemberExpression: (node, context) => {
    if (node['optional'] === true) removeOptional(child(node, 'object').end, context);
  },
  CallExpression: (node, context) => {
    const callee = child(node, 'callee');
    if (node['optional'] === true) removeOptional(callee.end, context);
    if (callee.type !== 'MemberExpression' || callee['computed'] === true) return;
    const [object, property] = [child(callee, 'object'), child(callee, 'property')];
    const name = String(property['name']);
    const other = METHODS.get(name);
    if (other !== undefined) context.emit(property, other);
    if (REMOVED_CALLS.has(name)) replaceBy(node, object, context);
  },
  TaggedTemplateExpression: (node, { source, emit }) => {
    const tag = source.slice(child(node, 'tag').start, child(node, 'tag').end);
    if (!/(?:sql|tx)$/i.test(tag)) return;
    const { start, end, ...quasi } = child(node, 'quasi');
    const holes = (quasi['expressions'] as Node[]).map((one) => ({ start: one.start, end: one.end }));
    for (const edit of sqlMutants(source, { start: start + 1, end: end - 1 }, holes)) emit(edit, edit.text);
  },
};

/** `?.name`, `?.(` and `?.[` without the `?`. */
function removeOptional(from: number, { source, emit }: Context): void {
  const start = source.indexOf('?.', from);
  emit({ start, end: start + 2 }, /[[(]/.test(source[start + 2] ?? '') ? '' : '.');
}

/** Expressions that wrap a type, so that the type beside them is not walked. */
const TYPED = new Set(['TSAsExpression', 'TSSatisfiesExpression', 'TSNonNullExpression']);

/** Returns the parts of a node that run. */
function partsOf(node: Node, source: string): Node[] {
  if (TYPED.has(node.type)) return [child(node, 'expression')];
  if (node.type.startsWith('TS') || /^(?:Import|ExportAll)/.test(node.type)) return [];
  const isError = (one: unknown): boolean => isNode(one) && source.slice(one.start, one.end).endsWith('Error');
  if (node.type === 'NewExpression' && isError(node['callee']))
    return (node['arguments'] as Node[]).filter((one) => !isText(one));
  // The quasi would be mutated as a template without a tag.
  if (node.type === 'TaggedTemplateExpression') return child(node, 'quasi')['expressions'] as Node[];
  if (node.type.endsWith('Property') && node['computed'] !== true) return [node['value']].filter(isNode);
  if (node.type === 'MemberExpression' && node['computed'] !== true) return [child(node, 'object')];
  return childrenOf(node);
}

function isLog(node: Node, source: string): boolean {
  if (node.type === 'ExpressionStatement') return isLog(child(node, 'expression'), source);
  if (node.type !== 'CallExpression') return false;
  const { start, end } = child(node, 'callee');
  return LOG.test(source.slice(start, end));
}

function parse(source: string): Node {
  const { program, errors } = parseSync('source.ts', source);
  if (errors.length > 0) throw new SyntaxError(errors.map(({ message }) => message).join(', '));
  return program as unknown as Node;
}

/** Returns the mutations of the source whose place `isWanted` in the order of their places. */
export function generate(source: string, isWanted: (offset: number) => boolean = () => true): Edit[] {
  const edits = new Map<string, Edit>();
  const emit: Emit = ({ start, end }, text) => {
    if (isWanted(start) && source.slice(start, end) !== text)
      edits.set(`${start} ${end} ${text}`, { start, end, text });
  };
  const visit = (node: Node, parent: Node): void => {
    if (isLog(node, source)) return;
    if (node !== parent) MUTATORS[node.type]?.(node, { source, parent, emit });
    for (const part of partsOf(node, source)) visit(part, node);
  };
  const program = parse(source);
  visit(program, program);
  return [...edits.values()]
    .filter((edit) => parseSync('source.ts', mutate(source, edit)).errors.length === 0)
    .toSorted((a, b) => a.start - b.start || a.end - b.end);
}

const LOOPS = new Set(['WhileStatement', 'DoWhileStatement', 'ForStatement', 'ForOfStatement', 'ForInStatement']);

/** Returns the source with a call at the start of each loop's body; the line numbers stay. */
export function countLoops(source: string, call: string): string {
  const inserts: { at: number; text: string }[] = [];
  const visit = (node: Node): void => {
    if (LOOPS.has(node.type)) {
      const body = child(node, 'body');
      if (body.type === 'BlockStatement') inserts.push({ at: body.start + 1, text: ` ${call};` });
      else inserts.push({ at: body.start, text: `{ ${call}; ` }, { at: body.end, text: ' }' });
    }
    for (const part of childrenOf(node)) visit(part);
  };
  visit(parse(source));
  // From the end, so that the places before stay. Of two at one place the outer loop's was found first.
  const order = inserts.toReversed().toSorted((a, b) => b.at - a.at);
  return order.reduce((text, insert) => text.slice(0, insert.at) + insert.text + text.slice(insert.at), source);
}
