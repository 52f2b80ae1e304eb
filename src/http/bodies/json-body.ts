/** Decodes and parses a body of JSON, or throws a 400 that describes the fault. */
import { isUtf8 } from 'node:buffer';
import { printParseErrorCode, visit, type ParseErrorCode } from 'jsonc-parser';
import { endOfLiteral, parseExact, type ExactNumber } from '#core/exact-number.ts';
import { invalid, Problem } from '#core/problem.ts';

/** Returns the 400 for a malformed body. `field` is the path of the member; empty for the whole body. */
export function malformed(message: string, field = ''): Problem {
  return invalid({ code: 'malformed_body', message, ...(field === '' ? {} : { field }) });
}

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Returns the text of a body without its byte order mark. Throws a 400 if the body is not UTF-8, or contains a NUL,
 * which PostgreSQL cannot store. Both checks read the bytes: 3 to 8 ms for 16 MiB, against 12 to 23 ms with TextDecoder
 * and a search in the text.
 */
export function decode(bytes: Uint8Array): string {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!isUtf8(body)) throw malformed('The body is not valid UTF-8');
  if (body.includes(0)) throw malformed('The body contains a NUL character');
  const hasMark = body.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
  return body.toString('utf8', hasMark ? BYTE_ORDER_MARK.length : 0);
}

/** Later steps walk the value recursively and must not exhaust the stack. */
const DEPTH_MAX = 100;
const TOO_DEEP = `The body is nested more than ${DEPTH_MAX} levels deep`;

/**
 * Returns what PostgreSQL cannot store of a text. JSON may contain half of a surrogate pair (RFC 8259 §8.2): stored as
 * text it would silently become U+FFFD, and jsonb rejects it.
 */
function unstorable(text: string): string | undefined {
  if (text.includes('\0')) return 'a NUL character';
  return text.isWellFormed() ? undefined : 'half of a surrogate pair';
}

/** Escapes of characters that cannot be stored; UTF-8 without a NUL contains such characters in no other form. */
const UNSTORABLE_ESCAPE = /\\u(?:0000|d[89a-f])/i;

/** What helps where a string is possible, too: in open JSON, whose numbers are kept. */
const AS_STRING = 'send it as a string, in quotes';

const isInfinite = (value: unknown): boolean => value === Infinity || value === -Infinity;

/** For bodies whose schema lists the members: 500,000 unknown names took seconds. */
export const MEMBERS_MAX = 10_000;

/**
 * Limit for each of commas, objects and arrays, also within texts: 1,000 events of 100 members have 100,000. 8 million
 * took 3 s.
 */
const MARKS_MAX = 150_000;

/**
 * A body with more than `unlimited` names may have at most `different` distinct ones: JSON.parse takes 0.1 µs for a
 * name that it has seen before, and 1.3 µs for a new one of many. From 1,536 on V8 gives each object a hash table: a
 * body of 149,000 objects took 95 ms with 1,990 distinct names, and 67 ms with 1,490.
 */
const NAMES = { unlimited: 20_000, different: 1_500 };

function countOf(text: string, mark: string): number {
  let count = 0;
  for (let at = text.indexOf(mark); at !== -1 && count <= MARKS_MAX; at = text.indexOf(mark, at + 1)) count += 1;
  return count;
}

/** Returns the number of commas, objects and arrays; throws a 400 if one of them is too large. */
function countMarks(text: string): number {
  let marks = 0;
  for (const mark of [',', '{', '[']) {
    const count = countOf(text, mark);
    if (count > MARKS_MAX)
      throw malformed(`The body has more than ${MARKS_MAX} occurrences of "${mark}": send it in parts`);
    marks += count;
  }
  return marks;
}

/**
 * `path` is built while returning from a fault: to maintain it for each member took longer than all other checks
 * together.
 */
type Violation = { message: (path: string) => string; path: string[]; isAtRoot?: true };

const atRoot = (message: string): Violation => ({ message: () => message, path: [], isAtRoot: true });
function within(found: Violation, name: string): Violation {
  found.path.push(name);
  return found;
}

/**
 * Counts the names in a parsed value. Throws if a text cannot be stored, a number is infinite (JSON.parse makes `1e999`
 * infinite, and JSON.stringify null), the nesting is too deep, or there are more than `membersMax` members and items.
 */
function countKeys(
  root: unknown,
  {
    membersMax,
    mayBeUnstorable,
    keepsNumbers,
  }: { membersMax: number; mayBeUnstorable: boolean; keepsNumbers: boolean },
): number {
  const advice = keepsNumbers ? AS_STRING : 'send a smaller one';
  let keys = 0;
  let members = 0;
  const visitMember = (value: unknown, depth: number): Violation | undefined => {
    if (typeof value === 'string') {
      if (!mayBeUnstorable) return undefined;
      const what = unstorable(value);
      return what === undefined ? undefined : { message: () => `A string contains ${what}`, path: [] };
    }
    if (isInfinite(value))
      return { message: (path) => `${path || 'The body'} is too large for a number: ${advice}`, path: [] };
    if (typeof value !== 'object' || value === null) return undefined;
    if (depth === DEPTH_MAX) return atRoot(TOO_DEEP);
    const names = Array.isArray(value) ? undefined : Object.keys(value);
    members += names?.length ?? (value as unknown[]).length;
    if (members > membersMax) return atRoot(`The body has more than ${membersMax} members`);
    if (names === undefined) {
      for (let index = 0; index < (value as unknown[]).length; index += 1) {
        const found = visitMember((value as unknown[])[index], depth + 1);
        if (found !== undefined) return within(found, String(index));
      }
      return undefined;
    }
    keys += names.length;
    for (const name of names) {
      const what = mayBeUnstorable ? unstorable(name) : undefined;
      if (what !== undefined) return { message: () => `A name contains ${what}`, path: [] };
      const found = visitMember((value as Record<string, unknown>)[name], depth + 1);
      if (found !== undefined) return within(found, name);
    }
    return undefined;
  };
  const found = visitMember(root, 0);
  if (found === undefined) return keys;
  const path = found.isAtRoot ? '' : found.path.toReversed().join('.');
  throw malformed(found.message(path), path);
}

const COLON = 58;
const isSpace = (code: number): boolean => code === 32 || (code >= 9 && code <= 13);

/**
 * Counts the names in JSON text: the string literals that a colon follows. Throws a 400 if too many of them differ.
 * Counting ends after `literalsMax` string literals: for 16 MiB of quotes it took 230 ms.
 */
function countNames(text: string, literalsMax: number, seen?: Set<string>): number {
  let names = 0;
  let literals = 0;
  for (let from = text.indexOf('"'); from !== -1 && literals < literalsMax; literals += 1) {
    const end = endOfLiteral(text, from);
    if (end === -1) break;
    let next = end + 1;
    while (isSpace(text.charCodeAt(next))) next += 1;
    if (text.charCodeAt(next) === COLON) {
      names += 1;
      if (seen !== undefined && seen.add(text.slice(from, end)).size > NAMES.different)
        throw malformed(
          `The body has more than ${NAMES.unlimited} names, of which more than ${NAMES.different} differ: send it in parts`,
        );
    }
    from = text.indexOf('"', next);
  }
  if (seen === undefined && names > NAMES.unlimited) countNames(text, literalsMax, new Set());
  return names;
}

/**
 * Returns the path of the first member that occurs twice in its object. Members hidden by a duplicate may be nested
 * deeper than `DEPTH_MAX`, which throws a 400.
 */
function findDuplicate(text: string): string | undefined {
  const seen: (Set<string> | undefined)[] = [];
  const begin = (names?: Set<string>): void => {
    if (seen.push(names) > DEPTH_MAX) throw malformed(TOO_DEEP);
  };
  let duplicate: string | undefined;
  visit(text, {
    onObjectBegin: () => begin(new Set()),
    onObjectEnd: () => void seen.pop(),
    onArrayBegin: () => begin(),
    onArrayEnd: () => void seen.pop(),
    onObjectProperty: (name, _offset, _length, _line, _character, path) => {
      const names = seen.at(-1);
      if (names?.has(name) === true) duplicate ??= [...path(), name].join('.');
      names?.add(name);
    },
  });
  return duplicate;
}

/** Errors in larger bodies have no line and column: finding them in 256 KiB takes 10 ms. */
const LOCATE_LENGTH_MAX = 256 * 1024;

function locateError(text: string): string {
  if (text.length > LOCATE_LENGTH_MAX) return '';
  let where: string | undefined;
  try {
    const onError = (error: ParseErrorCode, _offset: number, _length: number, line: number, character: number) => {
      where ??= ` (line ${line + 1}, column ${character + 1}: ${printParseErrorCode(error)})`;
    };
    visit(text, { onError }, { disallowComments: true });
  } catch (error) {
    // The nesting exhausted the stack of the parser.
    if (!(error instanceof RangeError)) throw error;
  }
  return where ?? '';
}

/** More digits have no use, and PostgreSQL reads no number with more than 16,383 decimals. */
const NUMBER_CHARACTERS_MAX = 64;

/** Throws a 400 for a number with too many characters, and for one that a double makes 0. */
function requireReadable({ text }: ExactNumber): void {
  if (text.length > NUMBER_CHARACTERS_MAX)
    throw malformed(`A number has more than ${NUMBER_CHARACTERS_MAX} characters: ${AS_STRING}`);
  if (/e/i.test(text) && Number(text) === 0 && /^[-0.]*[1-9]/.test(text))
    throw malformed(`${text} is too small for a number: ${AS_STRING}`);
}

/** A body with 149,000 ExactNumbers took 300 ms. */
const EXACT_NUMBERS_MAX = 50_000;

function keepNumbers(text: string, parsed: unknown): unknown {
  try {
    return parseExact(text, { check: requireReadable, parsed, max: EXACT_NUMBERS_MAX });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw malformed(`The body has more than ${EXACT_NUMBERS_MAX} numbers such as 12.50 or 1e3: send it in parts`);
  }
}

/** `keepsNumbers`: numbers that a double would change are an ExactNumber. */
export type JsonOptions = { membersMax?: number | undefined; keepsNumbers?: boolean };

/**
 * Parses JSON (RFC 8259). Rejects duplicate names in an object, numbers beyond the range of a double, and a NUL or half
 * of a surrogate pair in a string or name.
 */
export function parseJson(
  bytes: Uint8Array,
  { membersMax = Infinity, keepsNumbers = false }: JsonOptions = {},
): unknown {
  const text = decode(bytes);
  // A name and a value follow each of these marks at most, so text with more string literals is not JSON.
  const names = countNames(text, 2 * countMarks(text) + 1);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw malformed(`The body is not valid JSON${locateError(text)}`);
  }
  // A duplicate name disappears in the parsed value, so the counts differ only then; only then the slow search runs.
  if (countKeys(value, { membersMax, mayBeUnstorable: UNSTORABLE_ESCAPE.test(text), keepsNumbers }) !== names) {
    if (text.length > LOCATE_LENGTH_MAX) throw malformed('A member occurs twice in its object');
    const field = findDuplicate(text) ?? '';
    throw malformed(`The member ${field} occurs twice`, field);
  }
  return keepsNumbers ? keepNumbers(text, value) : value;
}

/** Returns the message of a fault of a body that is about a line. */
const ofLine = (message: string): string => message.replace('The body', 'The line').replace('(line 1, ', '(');

/** No item is larger: a line of 15 MiB occupied the process for 0.4 s. */
const LINE_LENGTH_MAX = 2 * 1024 * 1024;

/** A line of newline-delimited JSON. Lines are parsed one by one, so that 16 MiB of them do not occupy the process at once. */
export class JsonLine {
  /** The number of the line, counted from 1; blank lines count. */
  readonly number: number;
  /** The number of UTF-16 code units. */
  readonly length: number;
  readonly #text: string;

  constructor(number: number, text: string) {
    this.number = number;
    this.length = text.length;
    this.#text = text;
  }

  /** Parses the line as `parseJson` does, with its numbers as they are written. Throws a 400 that is about the line. */
  parse(): unknown {
    if (this.length > LINE_LENGTH_MAX)
      throw malformed(`The line has more than ${LINE_LENGTH_MAX} characters, the limit for one item`);
    try {
      return parseJson(Buffer.from(this.#text), { keepsNumbers: true });
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      throw invalid(...error.faults.map((fault) => Object.assign({}, fault, { message: ofLine(fault.message) })));
    }
  }
}

/** Blank lines, which are not counted as items, are skipped up to this number. */
const BLANK_MAX = 10_000;

/** Returns the lines of a body that are not blank, at most one more than `max`. Throws a 400 for too many blank lines. */
export function jsonLinesOf(bytes: Uint8Array, max: number): JsonLine[] {
  const text = decode(bytes);
  const lines: JsonLine[] = [];
  let number = 0;
  for (let from = 0; from < text.length && lines.length <= max; number += 1) {
    if (number - lines.length > BLANK_MAX) throw malformed(`The body has more than ${BLANK_MAX} blank lines`);
    const at = text.indexOf('\n', from);
    const end = at === -1 ? text.length : at;
    const line = text.slice(from, end);
    if (line.trim() !== '') lines.push(new JsonLine(number + 1, line));
    from = end + 1;
  }
  return lines;
}
