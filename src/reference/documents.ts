/**
 * The documents of docs/*.md as pages of this server. A document is written for the default names and settings. The server puts its own in
 * their place: names wherever they are, and values between `<!-- name -->` and `<!-- end of name -->`. The values are those of this server
 * on its pages, and of the default settings in docs/ (scripts/document-values.ts).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Marked, type RendererObject, type Token, type Tokens } from 'marked';
import { notFound } from '#core/problem.ts';
import type { RawHandler, RawResponse } from '#http/route.ts';
import { nameOf } from '#hypermedia/document.ts';
import { constant, html, render, type Markup } from '#hypermedia/markup.ts';
import { pathOf, relationLink, table } from './page-frame.ts';
import type { Setting } from './setting.ts';
import { ERROR_MEANINGS } from './relation-docs.ts';

const FOLDER = join(import.meta.dirname, '../../docs');

const BLOCK =
  /(?<begin><!-- (?<name>[a-z]+)\b[^>]*? -->\n?)(?<own>(?:(?!<!-- end of )[^])*)(?<end><!-- end of \k<name> -->)/g;

/** A marked text: `begin` and `end` are its marks. */
type Block = { name: string; begin: string; own: string; end: string };

/** Replaces the text outside and inside of the marks. */
function mapMarked(text: string, outside: (text: string) => string, inside: (block: Block) => string): string {
  let at = 0;
  let result = '';
  for (const { 0: whole, index, groups } of text.matchAll(BLOCK)) {
    const { name = '', begin = '', own = '', end = '' } = groups ?? {};
    result += outside(text.slice(at, index)) + inside({ name, begin, own, end });
    at = index + whole.length;
  }
  return result + outside(text.slice(at));
}

/** Returns a document as it has to be in docs/: with the values of these settings between its marks. */
export function withValues(text: string, setting: Setting): string {
  return mapMarked(
    text,
    (other) => other,
    ({ name, begin, own, end }) => begin + (VALUES[name]?.(setting) ?? own) + end,
  );
}

/** `{auth_url}`, and examples of it: the authorization server can have another host than the API. */
const OF_AUTH = /\{auth_url\}|http:\/\/localhost:8080(?=\/(?:authorize|sign-in|account|device)\b)/g;

/** Replaces the default names by those of this server. */
function withNames(text: string, { naming, authUrl, versionHeader, webhookHeaderPrefix: prefix }: Setting): string {
  return text
    .replaceAll(OF_AUTH, () => authUrl)
    .replaceAll(/http:\/\/localhost:8080|\{base_url\}/g, () => naming.baseUrl)
    .replaceAll('SERVICE-API-VERSION', () => versionHeader)
    .replaceAll("'Service'", () => `'${prefix}'`)
    .replaceAll(/\bService-(?=[A-Z`])/g, () => `${prefix}-`)
    .replaceAll(/\bservice-(?=webhook|store)/g, () => `${prefix.toLowerCase()}-`)
    .replaceAll(/\bsvc\b/g, () => naming.relationPrefix);
}

/** `parts`: HTML that the page has between two marks. */
export type Context = {
  setting: Setting;
  hasRelation: (rel: string) => boolean;
  parts: Readonly<Record<string, Markup>>;
};

/** Returns the Markdown with what this server has. The table of settings keeps the default names. */
function markdownOf(text: string, { setting, parts }: Pick<Context, 'setting' | 'parts'>): string {
  const named = (other: string): string => withNames(other, setting);
  return mapMarked(text, named, ({ name, own }) => {
    if (parts[name] !== undefined) return `<!-- ${name} -->\n`;
    if (name === 'repository') return '';
    if (name === 'handshake')
      return setting.handshakeOrigin === undefined
        ? ''
        : named(own).replaceAll('halcyon.example', setting.handshakeOrigin);
    return VALUES[name]?.(setting) ?? (name === 'settings' ? own : named(own));
  });
}

/** Returns the anchor that GitHub gives a heading: https://github.com/Flet/github-slugger has the rules. */
export function slugOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

/** Returns the path of a document of `/docs`; undefined for links to other files, which the server does not have. */
function pathOfLink(href: string, { naming }: Setting): string | undefined {
  const [, name = '', anchor = ''] = /^(?:([\w-]+)\.md)?(#.*)?$/.exec(href) ?? [];
  if (name === '') return anchor === '' ? undefined : anchor;
  if (name !== INDEX && !documentNames.includes(name)) return undefined;
  return pathOf(name === INDEX ? '/docs' : `/docs/${name}`, naming) + anchor;
}

/** Returns a document as Markdown, whose links lead to other documents as Markdown, and not to files that the server does not have. */
function markdownOfDocument(name: string, setting: Setting): string {
  return markdownOf(read(name), { setting, parts: {} })
    .replaceAll(/^<!-- .* -->\n+/gm, '')
    .replaceAll(/\[([^\]]*)\]\(([^)\s]*[./][^)\s]*)\)/g, (link, label: string, to: string) =>
      /^https?:/.test(to) || pathOfLink(to, setting) !== undefined ? link : label,
    );
}

/** Blocks of commands and code; others are output. */
const IS_COPIED = /^(?:sh|js|ts|py|python|ruby|php|sql|nginx|ini)$/;

function rendererOf({ setting, hasRelation, parts }: Context): RendererObject {
  let tables = 0;
  return {
    code: ({ text, lang = '' }) => render(html`<pre ${IS_COPIED.test(lang) && html`class="copyable"`}>${text}</pre>`),
    codespan({ text }) {
      const [, rel] = /^(\w+)$/.exec(text.slice(setting.naming.relationPrefix.length + 1)) ?? [];
      const isRelation = rel !== undefined && text === nameOf(rel, setting.naming) && hasRelation(rel);
      return render(isRelation ? relationLink(rel, setting.naming) : html`<code>${text}</code>`);
    },
    heading({ depth, tokens, text }) {
      const content = this.parser.parseInline(tokens);
      return depth === 3 ? `<h3 id="${slugOf(plain(text))}">${content}</h3>` : `<h${depth}>${content}</h${depth}>`;
    },
    // Comments are not shown; other markup is text.
    html: ({ text }) =>
      render(text.startsWith('<!--') ? (parts[/^<!-- ([a-z]+) /.exec(text)?.[1] ?? ''] ?? html``) : html`${text}`),
    image: ({ text }) => render(html`${text}`),
    link({ href, tokens, text }) {
      const [, file = ''] = /^([\w-]+)\.md$/.exec(text) ?? [];
      const content = documentNames.includes(file) ? html`${titleOf(file)}` : constant(this.parser.parseInline(tokens));
      const to = /^https?:/.test(href) ? href : pathOfLink(href, setting);
      return render(to === undefined ? content : html`<a href="${to}">${content}</a>`);
    },
    table({ header, rows }) {
      tables += 1;
      const cell = ({ tokens }: Tokens.TableCell): Markup | '' =>
        tokens.length === 0 ? '' : constant(this.parser.parseInline(tokens));
      return render(
        table(
          `Table ${tables}`,
          header.map(cell),
          rows.map((row) => row.map(cell)),
        ),
      );
    },
  };
}

/** Returns the text of a heading without the targets of its links. */
const plain = (heading: string): string => heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1');

/** `content`: a card with an anchor for each section. */
export type Page = { title: string; content: Markup };

export function renderDocument(name: string, context: Context): Page {
  const marked = new Marked({ renderer: rendererOf(context) });
  const sections: { title: string; id: string; tokens: Token[] }[] = [];
  for (const token of marked.lexer(markdownOf(read(name), context))) {
    if (token.type === 'heading' && (token as Tokens.Heading).depth < 3) {
      const title = plain((token as Tokens.Heading).text);
      sections.push({ title, id: slugOf(title), tokens: [] });
    }
    sections.at(-1)?.tokens.push(token);
  }
  const [first, ...others] = sections;
  if (first === undefined) throw new Error(`docs/${name}.md has no heading`);
  const entries = others.map(({ id, title }) => html`<li><a href="#${id}">${title.replaceAll('`', '')}</a></li>`);
  return {
    title: first.title,
    content: html`<div class="card">
        ${constant(marked.parser(first.tokens))}
        ${
          entries.length > 2 &&
          html`<nav aria-label="Contents of this page">
            <ul class="side">
              ${entries}
            </ul>
          </nav>`
        }
      </div>
      ${others.map(({ id, tokens }) => html`<section class="card" id="${id}">${constant(marked.parser(tokens))}</section>`)}`,
  };
}

const sources = new Map<string, string>();

/** Reads a file once. */
function read(name: string): string {
  return sources.getOrInsertComputed(name, () => readFileSync(join(FOLDER, `${name}.md`), 'utf8'));
}

/** The document of `/docs`. The server has the documents in docs/ to which it links. */
export const INDEX = 'README';

/** Reads the files when the module is loaded, so that a server whose files are incomplete does not start. */
export const documentNames: readonly string[] = [
  ...new Set(
    read(INDEX)
      .matchAll(/\]\(([\w-]+)\.md/g)
      .map(([, name = '']) => name),
  ),
];
for (const name of documentNames) read(name);

/** Returns the title of a document. */
export function titleOf(name: string): string {
  return /^# (.+)$/m.exec(read(name))?.[1] ?? name;
}

const MINUTE = 60;
const HOUR = 60 * MINUTE;

/** Returns a duration in the largest unit that fits: `5 s`, `10 min`, `75.6 h`. */
function durationOf(seconds: number): string {
  if (seconds < MINUTE) return `${seconds} s`;
  const [unit, name] = seconds < HOUR ? [MINUTE, 'min'] : [HOUR, 'h'];
  return `${Number((seconds / unit).toFixed(1))} ${name}`;
}

const code = (text: string): string => `\`${text}\``;
const cellOf = (text: string): string => text.replaceAll(/[|<*[]/g, String.raw`\$&`);

const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |\n`;

function markdownTable(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  return `${line(heads)}|${'---|'.repeat(heads.length)}\n${rows.map(line).join('')}`;
}

/** By the name of their mark. */
const VALUES: Readonly<Record<string, (setting: Setting) => string>> = {
  timeout: ({ deliveries }) => durationOf(deliveries.timeoutSeconds),
  retention: ({ deliveries }) => `${deliveries.retentionDays} days`,
  search: ({ searchSeconds }) => durationOf(searchSeconds),
  retries: ({ deliveries }) =>
    markdownTable(
      ['`retry_profile`', 'attempts', 'waits between attempts', 'disabled after'],
      Object.entries(deliveries.retrySeconds).map(([profile, waits]) => [
        code(profile),
        String(waits.length + 1),
        waits.map(durationOf).join(', '),
        `${deliveries.disableAfterFailures} consecutive failures over at least ${durationOf(deliveries.disableAfterSeconds[profile] ?? 0)}`,
      ]),
    ),
  headers: ({ sentRequests }) =>
    markdownTable(
      ['header', 'meaning'],
      sentRequests.headers.map(({ name, about }) => [code(name), cellOf(about)]),
    ),
  install: ({ installCommands }) => {
    const commands = [installCommands.npm, installCommands.python].filter((command) => command !== undefined);
    const block = commands.length > 0 ? `\`\`\`sh\n${commands.join('\n')}\n\`\`\`\n` : '';
    const missing = commands.length === 0 ? 'packages' : 'other package';
    return commands.length === 2
      ? block
      : `${block}\nThe operator builds the ${missing} with \`npm run packages\`, and restarts the server: then the commands are here.\n`;
  },
  scopes: ({ scopes }) =>
    markdownTable(
      ['scope', 'purpose'],
      Object.entries(scopes).map(([scope, about]) => [code(scope), cellOf(about)]),
    ),
  statuses: () => markdownTable(['status', 'meaning'], Object.entries(ERROR_MEANINGS)),
  rate: ({ rate }) =>
    rate.requestsPerSecond > 0
      ? `${rate.requestsPerSecond} requests a second and a burst of ${rate.burstRequests}`
      : 'no limit',
};

const markdown = (body: string): RawResponse => ({
  status: 200,
  headers: { 'Content-Type': 'text/markdown; charset=utf-8', 'Cache-Control': 'no-cache' },
  body,
});

function indexOf({ naming: { baseUrl }, authUrl, mcpAddress }: Setting): string {
  const pages = [INDEX, ...documentNames].map((name) => `- [${titleOf(name)}](${baseUrl}/docs/${name}.md)`);
  return `# Halcyon

> A hypermedia API of stores, an OAuth 2.0 authorization server and webhooks. Links lead from ${baseUrl} to every resource; tokens are of ${authUrl}.
${mcpAddress === undefined ? '' : `\nAgents connect to ${mcpAddress} (Model Context Protocol).\n`}
## Documentation

${pages.join('\n')}

## For programs

- [OpenAPI 3.1](${baseUrl}/openapi.json): every address with its parameters and responses
- [Link relations](${baseUrl}/rels): what each link means, and what can be done there
`;
}

/** Returns the handlers of the documentation for programs that read text: /llms.txt (llmstxt.org), and the documents as Markdown. */
export function createMarkdown(setting: Setting): Record<'index' | 'page', RawHandler> {
  return {
    index: async () => markdown(indexOf(setting)),
    page: async ({ params: { page = '' } }) => {
      if (page !== INDEX && !documentNames.includes(page)) throw notFound('page');
      return markdown(markdownOfDocument(page, setting));
    },
  };
}
