/**
 * Regular expressions of the operator's schemas (JSON Schema: ECMA-262 with the flag u), which run in linear time: a pattern such as
 * `^(a+)+$` on the engine of JavaScript takes 8 s for 30 characters, during which the process does nothing else.
 */
import { RE2JS } from 're2js';

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

/** A regular expression that takes time in proportion to the text. The constructor throws if there is none for the pattern. */
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
