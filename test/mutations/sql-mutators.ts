/** Generates mutations of the SQL in a tagged template. PostgreSQL rejects the few that are no longer SQL. */
import type { Edit } from './table.ts';

type Span = { start: number; end: number };

/** Neither is a character of SQL. */
const [HOLE, STRING] = ['¤', '§'];

/** Returns the text of the template, of the same length, without comments, the content of strings and of `${}`. */
function mask(source: string, { start, end }: Span, holes: readonly Span[]): string {
  let text = source.slice(start, end);
  const blank = (from: number, to: number): void => {
    text = text.slice(0, from - start) + HOLE.repeat(to - from) + text.slice(to - start);
  };
  for (const hole of holes) blank(source.lastIndexOf('${', hole.start), source.indexOf('}', hole.end) + 1);
  return text.replace(/--[^\n]*|'(?:[^']|'')*'/g, (found) =>
    (found.startsWith("'") ? STRING : ' ').repeat(found.length),
  );
}

const BOUNDARY =
  /[();]|\b(?:and|or|between|case|end|when|then|else|order\s+by|group\s+by|limit|offset|for\s+(?:no\s+key\s+|key\s+)?(?:update|share)|returning|on\s+conflict|union|except|where|having|left|inner|cross|join|window)\b/gi;

/** Returns where the condition ends that begins at `from`: before the next `and`, `or` or clause that is not nested in it. */
function endOfCondition(text: string, from: number): number {
  let [depth, cases, isBetween] = [0, 0, false];
  for (const { 0: found, index } of text.slice(from).matchAll(BOUNDARY)) {
    const word = found.toLowerCase();
    if (word === '(') depth += 1;
    else if (word === ')' && depth > 0) depth -= 1;
    else if (depth > 0) continue;
    else if (word === 'case') cases += 1;
    else if (word === 'end' && cases > 0) cases -= 1;
    else if (cases > 0) continue;
    else if (word === 'between') isBetween = true;
    else if (word === 'and' && isBetween) isBetween = false;
    else return from + index;
  }
  return text.length;
}

function trimmedEnd(text: string, start: number, end: number): number {
  return start + text.slice(start, end).trimEnd().length;
}

/** `x between 1 and 2`: this `and` joins no conditions. */
const isOfBetween = (text: string, at: number): boolean =>
  /\bbetween\b(?:(?!\b(?:and|or)\b)[^])*$/i.test(text.slice(0, at));

/** `=` in the list of `set` assigns. */
const isAssignment = (text: string, at: number): boolean =>
  /^set$/i.test(
    text
      .slice(0, at)
      .match(/\b(?:set|where|on|having|when|then|case|select|from|join|and|or)\b/gi)
      ?.at(-1) ?? '',
  );

function conditions(text: string): Edit[] {
  return [...text.matchAll(/\b(?:and|or|where)\b\s*/gi)].flatMap(({ 0: found, index: start }) => {
    const word = found.trim().toLowerCase();
    if (word === 'and' && isOfBetween(text, start)) return [];
    const end = endOfCondition(text, start + found.length);
    const removed = { start, end: trimmedEnd(text, start, end), text: '' };
    if (word !== 'where') return [removed, { start, end: start + word.length, text: word === 'and' ? 'or' : 'and' }];
    const next = /^(?:and|or)\b\s*/i.exec(text.slice(end))?.[0];
    return [next === undefined ? removed : { start: start + found.length, end: end + next.length, text: '' }];
  });
}

function operators(text: string): Edit[] {
  const others: Readonly<Record<string, string>> = { '=': '<>', '<>': '=', '<': '<=', '<=': '<', '>': '>=', '>=': '>' };
  return [...text.matchAll(/(?<=\s)(?:=|<>|<=|>=|<|>)(?=\s)/g)].flatMap(({ 0: found, index: start }) =>
    found === '=' && isAssignment(text, start) ? [] : [{ start, end: start + found.length, text: others[found] ?? '' }],
  );
}

/** `coalesce(a, b)` becomes `a`. */
function coalesces(text: string, source: string): Edit[] {
  return [...text.matchAll(/\bcoalesce\(/gi)].flatMap(({ 0: found, index: start }) => {
    const first = start + found.length;
    let [depth, comma] = [0, -1];
    for (let at = first; at < text.length; at += 1) {
      if (text[at] === '(') depth += 1;
      else if (text[at] === ',' && depth === 0 && comma === -1) comma = at;
      else if (text[at] === ')' && --depth < 0)
        return comma === -1 ? [] : [{ start, end: at + 1, text: source.slice(first, comma) }];
    }
    return [];
  });
}

/** Words and what replaces them; `$1` as in `String.replace`. */
const WORDS: readonly (readonly [RegExp, string])[] = [
  [/\basc\b/gi, 'desc'],
  [/\bdesc\b/gi, 'asc'],
  [/\bfor\s+(?:no\s+key\s+|key\s+)?(?:update|share)(?:\s+of\s+\w+)?(?:\s+(?:skip\s+locked|nowait))?/gi, ''],
  [/\b(?:skip\s+locked|nowait)\b/gi, ''],
  [/\blimit\s+[^\s)]+/gi, ''],
  [/\bon\s+conflict\b[^]*?\bdo\s+nothing\b/gi, ''],
  [/\bunion\s+all\b/gi, 'union'],
  [/\bunion\b(?!\s+all)/gi, 'union all'],
  [/\bmin(?=\()/gi, 'max'],
  [/\bmax(?=\()/gi, 'min'],
  [/\bleast(?=\()/gi, 'greatest'],
  [/\bgreatest(?=\()/gi, 'least'],
  [/\bis\s+null\b/gi, 'is not null'],
  [/\bis\s+not\s+null\b/gi, 'is null'],
  [/\bnot\s+exists\b/gi, 'exists'],
  [/\s[+-]\s*interval\s+§+/gi, ''],
  [/\btrue\b/gi, 'false'],
  [/\bfalse\b/gi, 'true'],
];

/** `do update set …` becomes `do nothing`. */
function conflicts(text: string): Edit[] {
  return [...text.matchAll(/\bdo\s+update\s+set\b/gi)].map(({ 0: found, index: start }) => {
    let end = start + found.length;
    do end = endOfCondition(text, end + 1);
    while (/^(?:and|or|when|where)\b/i.test(text.slice(end)));
    return { start, end: trimmedEnd(text, start, end), text: 'do nothing' };
  });
}

/** Returns the mutations of the template between its backticks. `holes`: its expressions. */
export function sqlMutants(source: string, template: Span, holes: readonly Span[]): Edit[] {
  const text = mask(source, template, holes);
  const words = WORDS.flatMap(([pattern, other]) =>
    [...text.matchAll(pattern)].map(({ 0: found, index: start }) => ({
      start,
      end: start + found.length,
      text: other,
    })),
  );
  const all = [
    ...conditions(text),
    ...operators(text),
    ...coalesces(text, source.slice(template.start, template.end)),
    ...words,
    ...conflicts(text),
  ];
  return all.map(({ start, end, text: other }) => ({
    start: template.start + start,
    end: template.start + end,
    text: other,
  }));
}
