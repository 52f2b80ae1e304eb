/**
 * Separates code, comments, strings and templates of a TypeScript file, so that a rule about code ignores text in
 * comments. Its own scanner, because TypeScript 7 has no parser API yet and a regular expression alone
 * takes the media range `text/*` for the start of a comment.
 */

export type Template = { tag: string; text: string; line: number };

export type Source = {
  text: string;
  /** The text with comments blanked; same length, same lines. */
  code: string;
  /** Templates, regular expressions and the content of strings blanked as well; the quotes of a string stay. */
  bare: string;
  /** Every template literal: its text with `${}` for each substitution, and its tag, or `''`. */
  templates: Template[];
};

type Kind = 'code' | 'comment' | 'text';

const KEYWORDS = /^(?:return|typeof|case|in|of|await|yield|do|else|void|delete|throw|new|default)$/;
/** No name is longer; the search begins at each character of what it gets. */
const WORD_MAX = 100;
const lastWord = (text: string): string => /[\w$]+$/.exec(text.slice(-WORD_MAX))?.[0] ?? '';

/** A slash starts a regular expression where a value may begin, and divides after a value. */
function startsRegex(before: string): boolean {
  const trimmed = before.trimEnd();
  return trimmed === '' || /[(,=:[!&|?{};+\-*%<>~^]$/.test(trimmed) || KEYWORDS.test(lastWord(trimmed));
}

/** `before` without the `<…>` of type arguments at its end; the `>` of an arrow ends none. */
function withoutTypeArguments(before: string): string {
  if (!before.endsWith('>') || before.endsWith('=>')) return before;
  let depth = 0;
  for (let at = before.length - 1; at >= 0; at -= 1) {
    if (before[at] === '>' && before[at - 1] !== '=') depth += 1;
    if (before[at] === '<') depth -= 1;
    if (depth === 0) return before.slice(0, at).trimEnd();
  }
  return before;
}

function tagBefore(before: string): string {
  const word = lastWord(withoutTypeArguments(before.trimEnd()));
  return KEYWORDS.test(word) ? '' : word;
}

function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text[at] !== text[start] && text[at] !== '\n') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

function endOfRegex(text: string, start: number): number {
  let isClass = false;
  let at = start + 1;
  for (; at < text.length && text[at] !== '\n' && (isClass || text[at] !== '/'); at += 1) {
    if (text[at] === '\\') at += 1;
    else if (text[at] === '[') isClass = true;
    else if (text[at] === ']') isClass = false;
  }
  return at + 1;
}

const blank = (text: string): string => text.replaceAll(/[^\n]/g, ' ');

class Scanner {
  readonly #text: string;
  readonly templates: Template[] = [];
  code = '';
  bare = '';
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  #take(end: number, kind: Kind): void {
    const part = this.#text.slice(this.#at, end);
    this.code += kind === 'comment' ? blank(part) : part;
    this.bare += kind === 'code' ? part : blank(part);
    this.#at = Math.min(end, this.#text.length);
  }

  #takeThrough(mark: string, from: number): void {
    const found = this.#text.indexOf(mark, from);
    this.#take(found === -1 ? this.#text.length : found + mark.length, 'comment');
  }

  /** Code up to the end of the text, or up to the brace that closes a template's substitution. */
  scan(isSubstitution = false): void {
    for (let depth = 0; this.#at < this.#text.length;) {
      const char = this.#text[this.#at];
      const two = this.#text.slice(this.#at, this.#at + 2);
      if (isSubstitution && char === '}' && depth === 0) return;
      if (char === '{') depth += 1;
      if (char === '}') depth -= 1;
      if (two === '//') this.#takeThrough('\n', this.#at);
      else if (two === '/*') this.#takeThrough('*/', this.#at + 2);
      else if (char === "'" || char === '"') this.#string();
      else if (char === '`') this.#template();
      else if (char === '/' && startsRegex(this.bare)) this.#take(endOfRegex(this.#text, this.#at), 'text');
      else this.#take(this.#at + 1, 'code');
    }
  }

  #string(): void {
    const end = endOfString(this.#text, this.#at);
    this.#take(this.#at + 1, 'code');
    this.#take(end - 1, 'text');
    this.#take(end, 'code');
  }

  #template(): void {
    const template = { tag: tagBefore(this.bare), text: '', line: this.code.split('\n').length };
    this.templates.push(template);
    this.#take(this.#at + 1, 'text');
    while (this.#at < this.#text.length && this.#text[this.#at] !== '`') {
      if (this.#text.startsWith('${', this.#at)) {
        template.text += '${}';
        this.#take(this.#at + 2, 'text');
        this.scan(true);
        this.#take(this.#at + 1, 'text');
      } else {
        const end = this.#at + (this.#text[this.#at] === '\\' ? 2 : 1);
        template.text += this.#text.slice(this.#at, end);
        this.#take(end, 'text');
      }
    }
    this.#take(this.#at + 1, 'text');
  }
}

export function readSource(text: string): Source {
  const scanner = new Scanner(text);
  scanner.scan();
  return { text, code: scanner.code, bare: scanner.bare, templates: scanner.templates };
}
