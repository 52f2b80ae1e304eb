/** Bodies of requests and responses on pages: JSON indented and coloured, other texts as they are, long ones folded. */
import { harmless } from '#core/legible.ts';
import { shownCode } from '#hypermedia/html/structured.ts';
import { html, type Markup } from '#hypermedia/markup.ts';

/** Longer bodies are folded. */
const OPEN_LINES = 60;
const OPEN_CHARACTERS = 4_000;

/** From here on, tokens have no colour: each coloured one takes about 30 bytes of the page. */
const COLOURED_TOKENS_MAX = 2_000;
/** Deeper levels are not indented further, or the indentation of 8,000 nested arrays would take 100 MB. */
const INDENTED_LEVELS_MAX = 20;

/** A string (the last one may be cut), a mark, white space, or a number or literal. Every text is a sequence of them, without backtracking. */
const TOKEN = /"(?:[^"\\]|\\[^])*"?|[{}[\],:]|\s+|[^\s"{}[\],:]+/g;

const OPENING = new Set(['{', '[']);
const CLOSING = new Set(['}', ']']);

/** Returns whether the text is JSON; of a cut text only the beginning is known. */
export function isJson(text: string, isCut = false): boolean {
  if (!/^\s*[{[]/.test(text)) return false;
  if (isCut) return true;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

type Piece = { text: string; kind: 'key' | 'text' | 'value' | 'mark' };

function kindOf(token: string, next: string | undefined): Piece['kind'] {
  if (token.startsWith('"')) return next === ':' ? 'key' : 'text';
  return OPENING.has(token) || CLOSING.has(token) || token === ',' || token === ':' ? 'mark' : 'value';
}

/**
 * Returns JSON in pieces, with line ends and indentation. Token by token, because `JSON.parse` would change numbers (`1.0`, ids above
 * 2^53), repeated names and the order of names like `1`.
 */
export function indentedPieces(json: string): Piece[] {
  const tokens = (json.match(TOKEN) ?? []).filter((token) => !/^\s/.test(token));
  const pieces: Piece[] = [];
  let level = 0;
  const mark = (text: string): void => void pieces.push({ text, kind: 'mark' });
  const line = (): void => mark(`\n${'  '.repeat(Math.min(level, INDENTED_LEVELS_MAX))}`);
  for (const [at, token] of tokens.entries()) {
    const [previous = '', next = ''] = [tokens[at - 1], tokens[at + 1]];
    if (CLOSING.has(token)) {
      level = Math.max(0, level - 1);
      if (!OPENING.has(previous)) line();
    }
    pieces.push({ text: token, kind: kindOf(token, next) });
    if (OPENING.has(token)) {
      level += 1;
      if (!CLOSING.has(next)) line();
    } else if (token === ',') line();
    else if (token === ':') mark(' ');
  }
  return pieces;
}

const coloured = ({ text, kind }: Piece, at: number): Markup | string =>
  kind === 'mark' || at >= COLOURED_TOKENS_MAX ? text : html`<span class="${kind}">${text}</span>`;

function folded(code: Markup, { characters, lines }: { characters: number; lines: number }, name: string): Markup {
  if (lines <= OPEN_LINES && characters <= OPEN_CHARACTERS) return code;
  return html`<details class="fold">
    <summary>Show the ${name} (${lines === 1 ? `${characters} characters` : `${lines} lines`})</summary>
    ${code}
  </details>`;
}

/** Renders a body. `name` is what the fold of a long one is called; `isCut`: the end of the body is missing. */
export function bodyBlock(body: string, { name, isCut = false }: { name: string; isCut?: boolean }): Markup {
  const text = harmless(body);
  const characters = text.length;
  if (!isJson(text, isCut)) return folded(shownCode(text), { characters, lines: text.split('\n').length }, name);
  const pieces = indentedPieces(text);
  const lines = 1 + pieces.filter((piece) => piece.text.startsWith('\n')).length;
  // The line break after <pre> is not part of its text.
  return folded(html`<pre class="code">${'\n'}${pieces.map(coloured)}</pre>`, { characters, lines }, name);
}
