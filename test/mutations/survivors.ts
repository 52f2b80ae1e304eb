/**
 * The reviewed survivors: generated mutations that no test can or needs to catch, each with the reason.
 *
 *     src/core/exact-number.ts
 *       if (quote === -1 || text.charCodeAt(quote - 1) !== BACKSLASH) return quote;
 *         -1 → 1
 *           Equivalent: the loop below returns -1, too.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../runner/changed.ts';
import { generate } from './mutators.ts';
import type { Edit } from './table.ts';

const FILE = 'test/mutations/survivors.txt';

/** `line`: the source line at which the mutation begins, without its indentation. */
export type Survivor = { target: string; line: string; change: string; reason: string };

export class SurvivorError extends Error {}

const LONGEST = 80;

function shortened(text: string): string {
  const line = text.trim().replaceAll(/\s+/g, ' ');
  if (line === '') return 'nothing';
  return line.length > LONGEST ? `${line.slice(0, LONGEST - 20)}…${line.slice(-19)}` : line;
}

/** Returns the change as text, and the line at which it begins. */
export function describe(source: string, { start, end, text }: Edit): { line: string; change: string } {
  const from = source.lastIndexOf('\n', start - 1) + 1;
  const [line = ''] = source.slice(from).split('\n', 1);
  return { line: line.trim(), change: `${shortened(source.slice(start, end))} → ${shortened(text)}` };
}

/** Throws a `SurvivorError` if a line is not of the format above. */
export function parseSurvivors(text: string): Survivor[] {
  const survivors: Survivor[] = [];
  let [target, line, change] = ['', '', ''];
  for (const [index, one] of text.split('\n').entries()) {
    const [, indentation = '', content = ''] = /^( *)(.*)$/.exec(one) ?? [];
    if (content === '') continue;
    else if (indentation.length === 0) [target, line, change] = [content, '', ''];
    else if (indentation.length === 2 && target !== '') [line, change] = [content, ''];
    else if (indentation.length === 4 && line !== '' && content.includes(' → ')) change = content;
    else if (indentation.length === 6 && change !== '') survivors.push({ target, line, change, reason: content });
    else throw new SurvivorError(`survivors.txt:${index + 1}: expected a path, a line, "from → to" or a reason`);
  }
  return survivors;
}

export function readSurvivors(): Survivor[] {
  return parseSurvivors(readFileSync(join(ROOT, FILE), 'utf8'));
}

/** Returns the survivors that are no mutations of their file. */
export function outdated(survivors: readonly Survivor[], sourceOf: (path: string) => string): Survivor[] {
  const byTarget = Object.groupBy(survivors, ({ target }) => target);
  return Object.entries(byTarget).flatMap(([target, some = []]) => {
    const source = sourceOf(target);
    const lines = new Set(some.map(({ line }) => line));
    const isWanted = (offset: number): boolean =>
      lines.has(describe(source, { start: offset, end: offset, text: '' }).line);
    const generated = generate(source, isWanted).map((edit) => describe(source, edit));
    return some.filter(({ line, change }) => !generated.some((one) => one.line === line && one.change === change));
  });
}
