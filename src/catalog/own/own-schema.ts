/** JSON Schemas (2020-12) of the operator: checked at start, and compiled to checks of published resources. */
import { Format } from 'typebox/format';
import { Compile, Meta } from 'typebox/schema';
import { RE2JS } from 're2js';
import type { Fault } from '#core/problem.ts';
import type { Value } from '#hypermedia/document.ts';
import { isObject, type JsonObject } from '../resource-document.ts';

/** A token of a valid pattern, outside of a character class and inside. */
const TOKEN =
  /\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|c[A-Za-z]|[pP]\{[^}]*\}|k<[^>]*>|[1-9][0-9]*|[^])|\(\?<?[=!]|\(\?<[^>]*>|\(\?[a-z-]*:|\[\^?\]?|[*+?]\??|\{[0-9,]+\}\??|[^]/gu;
const IN_CLASS =
  /\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|c[A-Za-z]|[pP]\{[^}]*\}|[^])|[^]/gu;

/** `\s` of ECMA-262, which includes the blanks of Unicode; in RE2 it is ASCII. */
const BLANK = String.raw`\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`;
const NOT_BLANK = String.raw`\x{0}-\x{8}\x{e}-\x{1f}!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`;

const EVERYTHING = String.raw`\x{0}-\x{10ffff}`;

type Token = { text: string; isInClass: boolean };

/** Returns the tokens of a valid pattern. */
function tokensOf(pattern: string): Token[] {
  const tokens: Token[] = [];
  let isInClass = false;
  let at = 0;
  while (at < pattern.length) {
    const scanner: RegExp = isInClass ? IN_CLASS : TOKEN;
    scanner.lastIndex = at;
    const [text] = scanner.exec(pattern) ?? [''];
    tokens.push({ text, isInClass });
    at = scanner.lastIndex;
    isInClass = isInClass ? text !== ']' : text === '[' || text === '[^';
  }
  return tokens;
}

const codePoint = (code: number): string => `\\x{${code.toString(16)}}`;

/** Returns the code point of `\x41`, `\u0041`, `\u{41}` or a pair of surrogates. */
function codeOf(text: string): number {
  const [first = 0, second] = (text.match(/[0-9a-f]+/gi) ?? []).map((digits) => Number.parseInt(digits, 16));
  return second === undefined ? first : (String.fromCharCode(first, second).codePointAt(0) ?? first);
}

/** Returns an escape of ECMA-262 in the syntax of RE2, where `\1` is a number. */
function escapeOf(text: string, isInClass: boolean): string {
  const [, letter = ''] = text;
  if (letter === 's') return isInClass ? BLANK : `[${BLANK}]`;
  if (letter === 'S') return isInClass ? NOT_BLANK : `[${NOT_BLANK}]`;
  if (letter === 'b' && isInClass) return codePoint(8);
  if (letter === '0') return codePoint(0);
  if (letter === 'c') return codePoint(text.charCodeAt(2) % 32);
  if (letter === 'u' || letter === 'x') return codePoint(codeOf(text));
  if (letter === 'p' || letter === 'P') return text.replace(/(?:Script|sc|General_Category|gc)=/, '');
  if (/[1-9k]/.test(letter)) throw new SyntaxError(`${text} is not possible`);
  return text;
}

function inRe2({ text, isInClass }: Token): string {
  if (text.startsWith('\\')) return escapeOf(text, isInClass);
  if (isInClass) return text === '[' ? '\\[' : text;
  if (text === '.') return String.raw`[^\n\r\x{2028}\x{2029}]`;
  if (text === '[]') return `[^${EVERYTHING}]`;
  if (text === '[^]') return `[${EVERYTHING}]`;
  if (text === '(' || /^\(\?<[^=!]/.test(text)) return '(?:';
  if (text.startsWith('(') && text !== '(?:') throw new SyntaxError(`${text} is not possible`);
  return text;
}

/**
 * A regular expression (ECMA-262 with the flag u) that takes time in proportion to the text: on the engine of JavaScript a pattern such
 * as `^(a+)+$` takes 8 s for 30 characters, during which the process does nothing else. The constructor throws if there is none for the
 * pattern.
 */
export class LinearPattern extends RegExp {
  readonly #pattern: string;
  readonly #engine: RE2JS;

  constructor(pattern: string) {
    super(pattern, 'u');
    this.#pattern = pattern;
    this.#engine = RE2JS.compile(tokensOf(pattern).map(inRe2).join(''));
  }

  override test(text: string): boolean {
    return this.#engine.test(text);
  }

  override toString(): string {
    return this.#pattern;
  }
}

/** Returns why the pattern of a text cannot be used; undefined if it can. */
export function patternFault(pattern: string): string | undefined {
  try {
    void new LinearPattern(pattern);
    return undefined;
  } catch (error) {
    return `write it without look-around, references to groups and repetitions over 1000: ${(error as Error).message}`;
  }
}

/**
 * Returns why the pattern of names of members cannot be used; undefined if it can. typebox compares names with the engine of
 * JavaScript, so only patterns are possible for which that is linear, too: without a choice between two ways to match.
 */
export function namePatternFault(pattern: string): string | undefined {
  const tokens = tokensOf(pattern).filter(({ isInClass }) => !isInClass);
  const repetitions = tokens.filter(({ text }) => /^[*+?]|^\{[0-9]+,/.test(text));
  const isSimple =
    !tokens.some(({ text }) => /^[(|]|^\\[1-9k]/.test(text)) &&
    (repetitions.length === 0 || (repetitions.length === 1 && tokens[0]?.text === '^'));
  return isSimple ? undefined : 'write it without groups and |, with at most one repetition, and that after ^';
}

type SchemaError = ReturnType<ReturnType<typeof Compile>['Errors']>[1][number];

/** `at`: the names and indexes that lead to the value. */
type Place = { at: readonly string[]; code: string; message: string };

/** Returns the parts of a JSON Pointer (RFC 6901). */
const partsOf = (pointer: string): string[] =>
  pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));

/** Returns the JSON Pointer (RFC 6901) of these names. */
export function pointerOf(parts: readonly string[]): string {
  return parts.map((part) => `/${part.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

const notAllowed = (at: readonly string[]): Place => ({
  at,
  code: 'unknown_property',
  message: 'is not allowed: remove it',
});

function placesOf(error: SchemaError): Place[] {
  const at = partsOf(error.instancePath);
  if (error.keyword === 'required') {
    const missing = error.params.requiredProperties;
    return missing.map((name) => ({ at: at.concat(name), code: 'required', message: 'is required' }));
  }
  if (error.keyword === 'additionalProperties')
    return error.params.additionalProperties.map((name) => notAllowed(at.concat(name)));
  if (error.keyword === 'boolean') return [notAllowed(at)];
  if (error.keyword === 'enum')
    return [{ at, code: 'invalid_value', message: `must be one of ${error.params.allowedValues.join(', ')}` }];
  return [{ at, code: 'invalid_value', message: error.message }];
}

const NO_MATCH: Place = { at: [], code: 'invalid_value', message: 'does not match its schema' };

/** Returns the faults of a value that does not match, at least one. */
function faultsIn(errors: readonly SchemaError[]): readonly Place[] {
  // This error repeats those of the members that it names.
  const found = errors.map((error) => ({
    isRepeating: error.keyword === 'additionalProperties',
    places: placesOf(error),
  }));
  const others = found.flatMap(({ isRepeating, places }) =>
    isRepeating ? [] : places.map(({ at }) => `${pointerOf(at)}/`),
  );
  const isReported = ({ at }: Place): boolean => others.some((path) => path.startsWith(`${pointerOf(at)}/`));
  const faults = found.flatMap(({ isRepeating, places }) =>
    isRepeating ? places.filter((place) => !isReported(place)) : places,
  );
  return faults.length > 0 ? faults : [NO_MATCH];
}

/**
 * Compiles a schema to the check of a resource's JSON text, whose faults have fields below `resource`. Numbers are compared as
 * doubles.
 */
export function compileCheck(schema: JsonObject): (body: string) => readonly Fault[] {
  const compiled = compileSchema(schema);
  return (body) => {
    const resource: unknown = JSON.parse(body);
    if (compiled.Check(resource)) return [];
    return faultsIn(compiled.Errors(resource)[1]).map(({ at, code, message }) => {
      const field = ['resource', ...at].join('.');
      return { code, message: `${field} ${message}`, field };
    });
  };
}

/** Returns faults of a value as sentences that begin with a JSON Pointer, below `at`; none if it matches. */
export function faultsAgainst(
  schema: { Errors: ReturnType<typeof Compile>['Errors'] },
  value: unknown,
  at = '',
): string[] {
  const [isMatch, errors] = schema.Errors(value);
  if (isMatch) return [];
  return faultsIn(errors).map((fault) => `${at}${pointerOf(fault.at)} ${fault.message}`);
}

/** Returns the first fault of each place. Compiled on use: most processes have no file. */
function checkAgainstMeta(schema: JsonObject, at: string): string[] {
  const [isMatch, errors] = Compile(Meta['https://json-schema.org/draft/2020-12/schema']).Errors(schema);
  if (isMatch) return [];
  const byPlace = Map.groupBy(faultsIn(errors), (fault) => pointerOf(fault.at));
  return [...byPlace].map(([place, [first]]) => `${at}${place} ${first?.message ?? ''}`);
}

const wordsOf = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/));

/**
 * Keywords whose value is a schema, a list of schemas, schemas by name, or something else. `unevaluatedProperties` and
 * `unevaluatedItems` are missing: typebox 1.4.3 forgets properties that were evaluated before an `if` that does not match. Without
 * the two, 240,000 comparisons with ajv differed only where ajv accepts an empty array without what it must contain.
 */
const ONE = wordsOf('not if then else items contains propertyNames additionalProperties');
const LIST = wordsOf('allOf anyOf oneOf prefixItems');
const BY_NAME = wordsOf('$defs properties patternProperties dependentSchemas');
const OTHER = wordsOf(`
  $schema $comment $ref title description default examples deprecated readOnly writeOnly type enum const required
  dependentRequired minProperties maxProperties minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength
  pattern format minItems maxItems uniqueItems minContains maxContains contentEncoding contentMediaType`);
const DEFINITION = '#/$defs/';

/** Returns the schema with patterns that run in linear time. */
function withLinearPatterns(schema: Value): unknown {
  if (!isObject(schema)) return schema;
  const entries = Object.entries(schema).map(([keyword, value]) => {
    if (keyword === 'pattern') return [keyword, new LinearPattern(value as string)];
    if (ONE.has(keyword)) return [keyword, withLinearPatterns(value)];
    if (LIST.has(keyword)) return [keyword, (value as readonly Value[]).map(withLinearPatterns)];
    if (!BY_NAME.has(keyword)) return [keyword, value];
    const byName = Object.entries(value as JsonObject).map(([name, one]) => [name, withLinearPatterns(one)]);
    return [keyword, Object.fromEntries(byName)];
  });
  return Object.fromEntries(entries);
}

/** Compiles a schema of the operator. */
export function compileSchema(schema: JsonObject): ReturnType<typeof Compile> {
  return Compile(withLinearPatterns(schema) as JsonObject);
}

/** Returns the schemas below a keyword, with their pointers. */
function schemasIn(keyword: string, value: Value): readonly (readonly [path: string, schema: Value])[] {
  if (ONE.has(keyword)) return [['', value]];
  const below = LIST.has(keyword) || BY_NAME.has(keyword) ? Object.entries(value as JsonObject) : [];
  return below.map(([name, schema]) => [pointerOf([name]), schema]);
}

/** Returns what the meta-schema permits, but would not be checked: misspelt keywords, unknown formats, missing definitions. */
function ineffective(schema: Value, at: string, definitions: ReadonlySet<string>): string[] {
  if (typeof schema === 'boolean') return [];
  return Object.entries(schema as JsonObject).flatMap(([keyword, value]) => {
    const path = `${at}${pointerOf([keyword])}`;
    const below = schemasIn(keyword, value);
    const slow =
      keyword === 'patternProperties'
        ? below.map(([name]) => ({ at: path + name, why: namePatternFault(partsOf(name)[0] ?? '') }))
        : keyword === 'pattern'
          ? [{ at: path, why: patternFault(value as string) }]
          : [];
    const faults = slow.flatMap(({ at: place, why }) => (why === undefined ? [] : [`${place}: ${why}`]));
    if (faults.length > 0) return faults;
    if (below.length > 0 || BY_NAME.has(keyword))
      return below.flatMap(([name, one]) => ineffective(one, path + name, definitions));
    if (!OTHER.has(keyword)) return [`${path}: correct or remove ${keyword}, which is not checked`];
    const text = typeof value === 'string' ? value : '';
    if (keyword === 'format' && !Format.Has(text))
      return [
        `${path}: "${text}" is not checked; formats are ${[...Format.Entries()].map(([name]) => name).join(', ')}`,
      ];
    if (keyword === '$ref' && !definitions.has(text))
      return [`${path}: refer to one of the schema's own definitions, such as ${DEFINITION}amount`];
    return [];
  });
}

/** Members of every representation, and keywords that further members would contradict. */
const CLOSING = ['additionalProperties', 'propertyNames', 'minProperties', 'maxProperties'];
const NOT_PUBLISHED = new Set(['_links', '_embedded']);
const ABOUT_ITSELF = ['$schema', 'title', 'description', 'type'];

/**
 * Returns the schema of delivered resources, which has no restriction of further members, such as links, and does not describe
 * those that Halcyon makes.
 */
export function openedSchema(schema: JsonObject): JsonObject & { properties: JsonObject; required: readonly string[] } {
  const { properties = {}, required = [], ...others } = schema;
  const omitted = new Set([...CLOSING, ...ABOUT_ITSELF]);
  return {
    ...Object.fromEntries(Object.entries(others).filter(([keyword]) => !omitted.has(keyword))),
    properties: Object.fromEntries(
      Object.entries(properties as JsonObject).filter(([name]) => !NOT_PUBLISHED.has(name)),
    ),
    required: (required as readonly string[]).filter((name) => !NOT_PUBLISHED.has(name)),
  };
}

/** Returns what to change in a schema, as sentences that begin with a JSON Pointer below `at`. */
export function schemaFaults(schema: JsonObject, at: string): string[] {
  const faults = checkAgainstMeta(schema, at);
  if (faults.length > 0) return faults;
  const definitions = schema['$defs'];
  const names = isObject(definitions) ? Object.keys(definitions) : [];
  return ineffective(schema, at, new Set(names.map((name) => DEFINITION + name)));
}
