/** A JSON body, or a 400 that says what is wrong with it. */
import { printParseErrorCode, visit, type ParseErrorCode } from 'jsonc-parser';
import type { Problem } from '#kernel/problem.ts';
import { decode, malformed } from './utf8.ts';

/** Nobody needs more; what walks the text again is recursive, and must not run out of stack. */
const DEPTH_MAX = 100;
const tooDeep = (): Problem => malformed(`The body is nested more than ${DEPTH_MAX} levels deep`);

/**
 * What PostgreSQL cannot store of a text: JSON may spell half of a surrogate pair (RFC 8259 §8.2), which is no character.
 * Stored as text it would silently become U+FFFD, and jsonb refuses it.
 */
const unstorable = (text: string): string | undefined => {
  if (text.includes('\0')) return 'a NUL character';
  return text.isWellFormed() ? undefined : 'half of a surrogate pair';
};

const isEndless = (value: unknown): boolean => value === Infinity || value === -Infinity;

/** Nobody needs more where a schema says which there are: half a million names that it does not know took seconds. */
export const MEMBERS_MAX = 10_000;

/**
 * Keys in a parsed value, counted without recursion; throws where a text cannot be stored, a number is none any more
 * (JSON.parse makes `1e999` infinite, and JSON.stringify that null), the nesting is too deep, or there are more members and
 * items than `membersMax`.
 */
const countKeys = (root: unknown, membersMax: number): number => {
  let keys = 0;
  let members = 0;
  const stack: [value: unknown, path: string, depth: number][] = [[root, '', 0]];
  for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
    const [value, path, depth] = entry;
    const inString = typeof value === 'string' ? unstorable(value) : undefined;
    if (inString !== undefined) throw malformed(`A string contains ${inString}`, path);
    if (isEndless(value)) throw malformed(`${path || 'The body'} is too large for a number: send it as text`, path);
    if (typeof value !== 'object' || value === null) continue;
    if (depth === DEPTH_MAX) throw tooDeep();
    const isArray = Array.isArray(value);
    members += isArray ? value.length : Object.keys(value).length;
    if (members > membersMax) throw malformed(`The body has more than ${membersMax} members`);
    for (const [key, child] of Object.entries(value)) {
      if (!isArray) keys += 1;
      const inName = isArray ? undefined : unstorable(key);
      if (inName !== undefined) throw malformed(`A name contains ${inName}`, path);
      if (typeof child !== 'object' && typeof child !== 'string' && !isEndless(child)) continue;
      stack.push([child, path === '' ? key : `${path}.${key}`, depth + 1]);
    }
  }
  return keys;
};

/**
 * Names in valid JSON text: the string literals that a colon follows. The match takes every literal whole, so it never
 * begins inside of one and passes over the text once.
 */
const countNames = (text: string): number => {
  let names = 0;
  for (const [, colon] of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?/g)) if (colon !== undefined) names += 1;
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

const whereItBreaks = (text: string): string => {
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
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw malformed(`The body is not valid JSON${whereItBreaks(text)}`);
  }
  // A repeated name disappears in the parsed value, so the counts differ just then; only then is the slow look taken.
  if (countKeys(value, membersMax) !== countNames(text)) {
    const field = findDuplicate(text) ?? '';
    throw malformed(`The member ${field} occurs twice`, field);
  }
  return value;
};
