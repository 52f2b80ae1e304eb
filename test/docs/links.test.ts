/** The targets of links and the files named in the documents exist. External addresses are only listed: no test needs a network. */
import assert from 'node:assert/strict';
import { posix } from 'node:path';
import { test } from 'node:test';
import { filesOfProject, readPage, readPages, type Page } from './page.ts';

const files = filesOfProject();
const folders = new Set(
  files.flatMap((file) => [...file.matchAll(/\//g)].map(({ index }) => file.slice(0, index + 1))),
);
const present = [...files, ...folders];
const pages = new Map(readPages().map((page) => [page.path, page]));

const isElsewhere = (link: string): boolean => /^[a-z]+:/.test(link);

/** Returns the fault of a link; undefined if its target exists. */
function faultOf(from: Page, link: string): string | undefined {
  if (isElsewhere(link)) {
    const isRead = URL.canParse(link) && new URL(link).protocol === 'https:';
    return isRead ? undefined : `${from.path}: ${link} is no https address`;
  }
  const [target = '', anchor] = link.split('#');
  const path = target === '' ? from.path : posix.join(posix.dirname(from.path), target);
  if (!present.includes(path)) return `${from.path}: ${link} leads to no file`;
  if (anchor === undefined || pages.get(path)?.anchors.has(anchor) === true) return undefined;
  return `${from.path}: ${path} has no heading for #${anchor}`;
}

test('every link in the documents has a target', (t) => {
  const links = [...pages.values()].flatMap((page) => page.links.map((link) => [page, link] as const));
  const elsewhere = new Set(links.map(([, link]) => link).filter(isElsewhere));
  t.diagnostic(`not asked, because it is external: ${[...elsewhere].join(' ')}`);
  assert.ok(links.length > elsewhere.size);
  assert.deepEqual(
    links.map(([page, link]) => faultOf(page, link)).filter((fault) => fault !== undefined),
    [],
  );
});

test('a link whose label is the name of a document leads to that document', () => {
  const links = [...pages.values()].flatMap(({ path, documentLinks }) =>
    documentLinks.map((link) => ({ path, ...link })),
  );
  assert.ok(links.length > 0);
  assert.deepEqual(
    links.filter(({ label, target }) => !`/${target.split('#')[0] ?? ''}`.endsWith(`/${label}`)),
    [],
  );
});

/** The pages that a reader reaches from there by links. */
function reachedFrom(start: string): Set<string> {
  const reached = new Set<string>();
  const waiting = [start];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (reached.has(path)) continue;
    reached.add(path);
    const folder = posix.dirname(path);
    const links = pages.get(path)?.links.filter((link) => !isElsewhere(link)) ?? [];
    waiting.push(...links.map((link) => posix.join(folder, link.split('#')[0] ?? '')).filter((to) => pages.has(to)));
  }
  return reached;
}

test('every page of docs/ can be reached from the README', () => {
  const reached = reachedFrom('README.md');
  const all = [...pages.keys()].filter((path) => path.startsWith('docs/'));
  assert.deepEqual(
    all.filter((path) => !reached.has(path)),
    [],
  );
});

/** `http/server.ts`, `bearer.ts`, `grants/`: a file or a folder, by as much of its path as the text needs. */
const PATH = /^[\w-][\w./-]*(?:\.(?:ts|mjs|sql|md|patch|json|yml|yaml|service)|\/)$/;
const isThere = (name: string): boolean => present.some((path) => path === name || path.endsWith(`/${name}`));

for (const path of [
  'ARCHITECTURE.md',
  'src/delivery/README.md',
  'docs/scaling.md',
  'docs/security.md',
  'docs/measurements/deliveries.md',
]) {
  test(`every file and folder that ${path} names exists`, () => {
    const names = pages.get(path)?.names.filter((name) => PATH.test(name)) ?? [];
    assert.ok(names.length > 0, `${path} names files`);
    assert.deepEqual(
      names.filter((name) => !isThere(name)),
      [],
    );
  });
}

const TYPED = /^(?:\$ |npm |npx |node |curl |halcyon |docker |psql |systemctl )/m;

test('every command is in an sh block, which is run', () => {
  const hidden = [...pages.values()]
    .filter(({ path }) => path === 'README.md' || path.startsWith('docs/'))
    .flatMap(({ path, blocks }) => blocks.map((block) => ({ path, ...block })))
    .filter(({ language, text }) => language === '' || (language !== 'sh' && TYPED.test(text)));
  assert.deepEqual(
    hidden.map(({ path, line }) => `${path}:${line}`),
    [],
  );
});

test('headings have the anchors that GitHub gives them', () => {
  const { anchors } = readPage(
    'x.md',
    '# A\n\n## `PORT`: what, and *why*?\n\n## A\n\n## To [b](c.md)\n\n```sh\n# no heading\n```\n',
  );
  assert.deepEqual([...anchors], ['a', 'port-what-and-why', 'a-1', 'to-b']);
});

test('a broken link is found', () => {
  const page = readPage(
    'docs/x.md',
    '[a](nowhere.md) [b](../README.md#nowhere) [c](http://example.com) [d](../README.md)',
  );
  assert.deepEqual(
    page.links.map((link) => faultOf(page, link)?.replace(/^docs\/x\.md: /, '')),
    [
      'nowhere.md leads to no file',
      'README.md has no heading for #nowhere',
      'http://example.com is no https address',
      undefined,
    ],
  );
});
