import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { XMLValidator } from 'fast-xml-parser';
import { anyDocument } from '../../test/setup/any-document.ts';
import { count, json, number, text, type Document, type Value } from './document.ts';
import { renderXml } from './xml.ts';

const naming = { baseUrl: 'https://api.example.com', relationPrefix: 'svc' };
const head = '<?xml version="1.0" encoding="UTF-8"?>\n';
const curies = '<link rel="curies" name="svc" href="https://api.example.com/rels/{rel}" templated="true"/>';

const documentOf = (given: Partial<Document>): Document => ({
  name: 'thing',
  links: [],
  embedded: [],
  properties: [],
  ...given,
});

/** What represents a value, without what surrounds it. */
const written = (value: Value, name = 'a'): string =>
  renderXml(documentOf({ properties: [json.orNull(name, value)] }), naming).slice(
    `${head}<resource>${curies}`.length,
    -'</resource>'.length,
  );

test('a page has its address, its links, embedded resources with their relation, and its counts as numbers', () => {
  const child = documentOf({
    links: [
      { rel: 'self', href: '/1', title: 'This' },
      { rel: 'store', href: '/s' },
    ],
    properties: [text('name', 'A')],
  });
  const document = documentOf({
    links: [
      { rel: 'self', href: '/all', title: 'All', type: 'text/plain' },
      { rel: 'find', href: '/all{?name}', templated: true },
    ],
    embedded: [{ rel: 'things', documents: [child] }],
    properties: [count('total_items', 7), number('limit', 20)],
  });
  assert.equal(
    renderXml(document, naming),
    `${head}<resource href="/all">${curies}` +
      '<link rel="self" href="/all" title="All" type="text/plain"/>' +
      '<link rel="svc:find" href="/all{?name}" templated="true"/>' +
      '<resource rel="svc:things" href="/1"><link rel="self" href="/1" title="This"/><link rel="svc:store" href="/s"/>' +
      '<name>A</name></resource>' +
      '<total_items>7</total_items><limit>20</limit></resource>',
  );
});

const values: readonly (readonly [what: string, value: Value, xml: string])[] = [
  ['null', null, '<a></a>'],
  ['an empty text', '', '<a></a>'],
  ['an empty array', [], '<a></a>'],
  ['an empty object', {}, '<a></a>'],
  ['a boolean', false, '<a>false</a>'],
  ['an array: repeated elements', ['x', 2, null], '<a>x</a><a>2</a><a></a>'],
  ['an object: nested elements', { b: 'x', c: { d: 1 } }, '<a><b>x</b><c><d>1</d></c></a>'],
  ['an array of objects', [{ b: 1 }, { b: 2 }], '<a><b>1</b></a><a><b>2</b></a>'],
  ['an array within an array', [[1, 2], []], '<a><member>1</member><member>2</member></a><a></a>'],
  ['markup', '<b>&"\']]></b>', '<a>&lt;b&gt;&amp;"\']]&gt;&lt;/b&gt;</a>'],
  ['white space, which a parser keeps', ' a\r\n\tb ', '<a> a&#13;\n\tb </a>'],
  ['an emoji', '\u{1f680}', '<a>\u{1f680}</a>'],
  ['a control character: base64', 'a\u0001', '<a encoding="base64">YQE=</a>'],
  ['an invalid character', '\ufffe', '<a encoding="base64">77++</a>'],
  ['half of a surrogate pair', 'a\ud83d', '<a>a\ufffd</a>'],
];
for (const [what, value, xml] of values) {
  test(`a value is written: ${what}`, () => assert.equal(written(value), xml));
}

const names: readonly (readonly [name: string, tag: string])[] = [
  ['event_resource', 'event_resource'],
  ['X-A.b1', 'X-A.b1'],
  ['resource', 'resource'],
  ['link', 'link'],
  ['1st', 'member name="1st"'],
  ['svc:a', 'member name="svc:a"'],
  ['xmlns', 'member name="xmlns"'],
  ['member', 'member name="member"'],
  ['__proto__', 'member name="__proto__"'],
  ['ü "<\n\u0001', 'member name="ü &quot;&lt;&#10;\ufffd"'],
];
for (const [name, tag] of names) {
  test(`a member is written: ${JSON.stringify(name)}`, () =>
    assert.equal(written('x', name), `<${tag}>x</${tag.split(' ', 1)[0]}>`));
}

test('an attribute keeps its white space and cannot be broken out of', () => {
  const [, link] = renderXml(
    documentOf({ links: [{ rel: 'self', href: '/?a=1&b="2"', title: '\t\r\n<>\u0001\ud800 \u{1f680}' }] }),
    naming,
  ).split(curies);
  assert.equal(
    link,
    '<link rel="self" href="/?a=1&amp;b=&quot;2&quot;" title="&#9;&#13;&#10;&lt;>\ufffd\ufffd \u{1f680}"/></resource>',
  );
});

test('every document is written as well-formed XML', () => {
  fc.assert(
    fc.property(anyDocument, (document) => {
      const xml = renderXml(document, naming);
      assert.equal(XMLValidator.validate(xml), true);
      // The library does not check these.
      assert.doesNotMatch(xml, /[^\t\n\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u);
      assert.doesNotMatch(xml, /&(?!(?:amp|lt|gt|quot|#9|#10|#13);)/);
    }),
  );
});
