/** What a Markdown page links to, names, and shows as commands. Not a renderer: the pages use only what is parsed here. */
import { globSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { slugOf } from '#reference/documents.ts';

export const ROOT = join(import.meta.dirname, '../..');

export type Block = {
  language: string;
  text: string;
  /** The lines of its start and end in the page, from 1. */
  line: number;
  lastLine: number;
  /** The text of the HTML comment right above it, if there is one. */
  remark: string | undefined;
};

export type Page = {
  /** From the root of the project. */
  path: string;
  links: string[];
  /** The links whose label is the name of a document. */
  documentLinks: { label: string; target: string }[];
  /** The valid anchors of this page. */
  anchors: ReadonlySet<string>;
  /** The texts in backticks. */
  names: string[];
  blocks: Block[];
};

const FENCE = /(?:^<!-- (?<remark>[^>]*?) -->\n+)?^```(?<language>[a-z]*)\n(?<text>.*?)^```$/gms;
const INDENTED = /(?<=\n\n)(?: {4}.*\n+)+/g;
const LINK = /\[(?<label>(?:[^[\]]|\[[^[\]]*\])*)\]\((?<target>[^()\s]+)\)/g;
const TICKED = /`(?<name>[^`\n]+)`/g;

function anchorsOf(prose: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading = ''] of prose.matchAll(/^#{1,6} (.+)$/gm)) {
    const base = slugOf(heading.replaceAll(LINK, (link) => link.slice(1, link.indexOf(']('))));
    let anchor = base;
    for (let again = 1; anchors.has(anchor); again += 1) anchor = `${base}-${again}`;
    anchors.add(anchor);
  }
  return anchors;
}

const blocksOf = (page: string): Block[] =>
  Array.from(page.matchAll(FENCE), ({ groups, index, 0: whole }) => {
    const text = groups?.['text'] ?? '';
    const line = page.slice(0, index + whole.indexOf('```')).split('\n').length + 1;
    return {
      language: groups?.['language'] ?? '',
      text,
      line,
      lastLine: line + text.split('\n').length - 2,
      remark: groups?.['remark'],
    };
  });

export function readPage(path: string, text: string): Page {
  const prose = text.replaceAll(FENCE, '').replaceAll(INDENTED, '\n');
  const named = (pattern: RegExp, group: string): string[] =>
    Array.from(prose.matchAll(pattern), ({ groups }) => groups?.[group] ?? '');
  return {
    path,
    links: named(LINK, 'target'),
    documentLinks: Array.from(prose.matchAll(LINK), ({ groups }) => ({
      label: groups?.['label'] ?? '',
      target: groups?.['target'] ?? '',
    })).filter(({ label }) => /^[\w./-]+\.md$/.test(label)),
    anchors: anchorsOf(prose),
    names: named(TICKED, 'name'),
    blocks: blocksOf(text),
  };
}

const IS_NO_PART = new Set(['node_modules', '.git', '.halcyon']);

/** Every file of the project, by its path from the root. */
export function filesOfProject(): string[] {
  return globSync('**', { cwd: ROOT, withFileTypes: true, exclude: ({ name }) => IS_NO_PART.has(name) })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => relative(ROOT, join(parentPath, name)));
}

export function readPages(): Page[] {
  return filesOfProject()
    .filter((path) => path.endsWith('.md'))
    .map((path) => readPage(path, readFileSync(join(ROOT, path), 'utf8')));
}
