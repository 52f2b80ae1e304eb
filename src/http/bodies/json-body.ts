/** A JSON body, or a 400 that says what is wrong with it. */
import { printParseErrorCode, visit, type ParseErrorCode } from 'jsonc-parser';
import type { Problem } from '#core/problem.ts';
import { decode, malformed } from './utf8.ts';

/** Nobody needs more; what walks the text again is recursive, and must not run out of stack. */
const DEPTH_MAX = 100;
const TOO_DEEP = `The body is nested more than ${DEPTH_MAX} levels deep`;
const tooDeep = (): Problem => malformed(TOO_DEEP);

/**
 * What PostgreSQL cannot store of a text: JSON may spell half of a surrogate pair (RFC 8259 §8.2), which is no character.
 * Stored as text it would silently become U+FFFD, and jsonb refuses it.
 */
const unstorable = (text: string): string | undefined => {
  if (text.includes('\0')) return 'a NUL character';
  return text.isWellFormed() ? undefined : 'half of a surrogate pair';
};

/** The escapes that spell what cannot be stored; UTF-8 without a NUL spells it in no other way. */
const SUSPECT_ESCAPE = /\\u(?:0000|d[89a-f])/i;

const isEndless = (value: unknown): boolean => value === Infinity || value === -Infinity;

/** Nobody needs more where a schema says which there are: half a million names that it does not know took seconds. */
export const MEMBERS_MAX = 10_000;

/** Commas, objects and arrays each, in texts too: 1,000 events of 100 members have 100,000. Eight million took three seconds. */
const MARKS_MAX = 150_000;

/**
 * A body with more names than the first may have as many different ones as the second: JSON.parse takes 0.1 µs for a name that it has
 * met, and 1.3 µs for another one of many.
 */
const NAMES = { unlimited: 20_000, different: 2_000 };

const countOf = (text: string, mark: string): number => {
  let count = 0;
  for (let at = text.indexOf(mark); at !== -1 && count <= MARKS_MAX; at = text.indexOf(mark, at + 1)) count += 1;
  return count;
};

const refuseTooMany = (text: string): void => {
  for (const mark of [',', '{', '['])
    if (countOf(text, mark) > MARKS_MAX)
      throw malformed(`The body has more than ${MARKS_MAX} of "${mark}": send it in parts`);
};

/** `path` is built on the way back, from a fault that was found: to have it ready for each member took longer than all else. */
type Found = { message: (path: string) => string; path: string[]; atWhole?: true };

const whole = (message: string): Found => ({ message: () => message, path: [], atWhole: true });
const within = (found: Found, name: string): Found => {
  found.path.push(name);
  return found;
};

/**
 * Counts the names in a parsed value; throws where a text cannot be stored, a number is none any more (JSON.parse makes `1e999`
 * infinite, and JSON.stringify that null), the nesting is too deep, or there are more members and items than `membersMax`.
 */
const countKeys = (root: unknown, { membersMax, isSuspect }: { membersMax: number; isSuspect: boolean }): number => {
  let keys = 0;
  let members = 0;
  const look = (value: unknown, depth: number): Found | undefined => {
    if (typeof value === 'string') {
      if (!isSuspect) return undefined;
      const what = unstorable(value);
      return what === undefined ? undefined : { message: () => `A string contains ${what}`, path: [] };
    }
    if (isEndless(value))
      return { message: (path) => `${path || 'The body'} is too large for a number: send it as text`, path: [] };
    if (typeof value !== 'object' || value === null) return undefined;
    if (depth === DEPTH_MAX) return whole(TOO_DEEP);
    const names = Array.isArray(value) ? undefined : Object.keys(value);
    members += names?.length ?? (value as unknown[]).length;
    if (members > membersMax) return whole(`The body has more than ${membersMax} members`);
    if (names === undefined) {
      for (let index = 0; index < (value as unknown[]).length; index += 1) {
        const found = look((value as unknown[])[index], depth + 1);
        if (found !== undefined) return within(found, String(index));
      }
      return undefined;
    }
    keys += names.length;
    for (const name of names) {
      const what = isSuspect ? unstorable(name) : undefined;
      if (what !== undefined) return { message: () => `A name contains ${what}`, path: [] };
      const found = look((value as Record<string, unknown>)[name], depth + 1);
      if (found !== undefined) return within(found, name);
    }
    return undefined;
  };
  const found = look(root, 0);
  if (found === undefined) return keys;
  const path = found.atWhole ? '' : found.path.toReversed().join('.');
  throw malformed(found.message(path), path);
};

const [QUOTE, BACKSLASH, COLON] = [34, 92, 58];
const isSpace = (code: number): boolean => code === 32 || (code >= 9 && code <= 13);

/** Returns where the string literal that begins at `from` ends; -1 where it does not. */
const endOfLiteral = (text: string, from: number): number => {
  const quote = text.indexOf('"', from + 1);
  if (quote === -1 || text.charCodeAt(quote - 1) !== BACKSLASH) return quote;
  for (let at = from + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === BACKSLASH) at += 1;
    else if (code === QUOTE) return at;
  }
  return -1;
};

/**
 * Counts the names in JSON text, the string literals that a colon follows. Throws a 400 where too many of them differ.
 */
const countNames = (text: string, seen?: Set<string>): number => {
  let names = 0;
  for (let from = text.indexOf('"'); from !== -1;) {
    const end = endOfLiteral(text, from);
    if (end === -1) break;
    let next = end + 1;
    while (isSpace(text.charCodeAt(next))) next += 1;
    if (text.charCodeAt(next) === COLON) {
      names += 1;
      if (seen !== undefined && seen.add(text.slice(from, end)).size > NAMES.different)
        throw malformed(
          `The body has more than ${NAMES.unlimited} names, more than ${NAMES.different} of them different: send it in parts`,
        );
    }
    from = text.indexOf('"', next);
  }
  if (seen === undefined && names > NAMES.unlimited) countNames(text, new Set());
  return names;
};

/** The path of the first member that is named twice in its object. What it hides from the value may be as deep as it likes. */
const findDuplicate = (text: string): string | undefined => {
  const seen: (Set<string> | undefined)[] = [];
  const begin = (names?: Set<string>): void => {
    if (seen.push(names) > DEPTH_MAX) throw tooDeep();
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
};

/** Larger bodies get no line and column with the error: finding them in 256 KiB takes 10 ms. */
const LOOKED_AT_MAX = 256 * 1024;

const whereItBreaks = (text: string): string => {
  if (text.length > LOOKED_AT_MAX) return '';
  let where: string | undefined;
  try {
    const onError = (error: ParseErrorCode, _offset: number, _length: number, line: number, character: number) => {
      where ??= ` (line ${line + 1}, column ${character + 1}: ${printParseErrorCode(error)})`;
    };
    visit(text, { onError }, { disallowComments: true });
  } catch (error) {
    // Nested so deep that the look at it ran out of stack.
    if (!(error instanceof RangeError)) throw error;
  }
  return where ?? '';
};

/**
 * JSON (RFC 8259) with no name twice in an object, no number beyond what a double holds, and no NUL or half of a
 * surrogate pair in a string or name.
 */
export const parseJson = (bytes: Uint8Array, membersMax = Infinity): unknown => {
  const text = decode(bytes);
  refuseTooMany(text);
  const names = countNames(text);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw malformed(`The body is not valid JSON${whereItBreaks(text)}`);
  }
  // A repeated name disappears in the parsed value, so the counts differ just then; only then is the slow look taken.
  if (countKeys(value, { membersMax, isSuspect: SUSPECT_ESCAPE.test(text) }) !== names) {
    if (text.length > LOOKED_AT_MAX) throw malformed('A member occurs twice in its object');
    const field = findDuplicate(text) ?? '';
    throw malformed(`The member ${field} occurs twice`, field);
  }
  return value;
};
