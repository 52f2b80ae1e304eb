import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Value } from '#hypermedia/document.ts';
import { renderXml } from '#hypermedia/xml.ts';
import { Problem } from '#core/problem.ts';
import { anyName, valueWith } from '../../../test/setup/any-document.ts';
import { parseXml } from './xml-body.ts';

const naming = { baseUrl: 'https://api.example.com', relationPrefix: 'svc' };

/** Plain, since objects without a prototype are deeply equal to none. */
const read = (xml: string | Buffer): unknown =>
  JSON.parse(JSON.stringify(parseXml(Buffer.from(xml), new Set(['events']))));

function refusal(xml: string | Buffer) {
  try {
    parseXml(Buffer.from(xml), new Set());
  } catch (error) {
    if (error instanceof Problem) return { status: error.status, ...error.faults[0] };
    throw error;
  }
  return undefined;
}

const taken: readonly (readonly [what: string, inside: string, value: unknown])[] = [
  ['nothing', '', {}],
  ['texts, with their white space', '<a> x\n</a><b/><c></c>', { a: ' x\n', b: '', c: '' }],
  ['white space between elements', '\n  <a>x</a>\r\n  <b>y</b>\n', { a: 'x', b: 'y' }],
  ['repeated elements', '<a>x</a><b>1</b><a>y</a>', { a: ['x', 'y'], b: '1' }],
  ['one element of an array', '<events>x</events>', { events: ['x'] }],
  ['an empty array', '<events/>', { events: [] }],
  ['elements within elements', '<a><b>x</b><b><c>y</c></b></a>', { a: { b: ['x', { c: 'y' }] } }],
  ['members whose names are invalid in XML', '<member name="a b">x</member>', { 'a b': 'x' }],
  ['items of an array within an array', '<a><member>x</member><member/></a>', { a: ['x', ''] }],
  ['the predefined entities', '<a>&lt;&gt;&amp;&quot;&apos;&amp;lt;</a>', { a: '<>&"\'&lt;' }],
  ['references to characters', '<a>&#13;&#x1F680;&#0233;</a>', { a: '\r\u{1f680}é' }],
  ['references in a name', '<member name="&#xe9;&quot;">x</member>', { 'é"': 'x' }],
  ['CDATA, in which nothing is markup', '<a>1<![CDATA[<!DOCTYPE &amp; <b>]]>2</a>', { a: '1<!DOCTYPE &amp; <b>2' }],
  [']]> in texts, references and CDATA', '<a>]]&gt;]&#93;&#62;<![CDATA[x]]]]><![CDATA[>]]></a>', { a: ']]>]]>x]]>' }],
  ['comments and instructions', '<!-- <!DOCTYPE a> --><a>x<!-- y -->z<?b c?></a>', { a: 'xz' }],
  ['base64', '<a encoding="base64">YQ\n E=</a>', { a: 'a\u0001' }],
  [
    'links and embedded resources, which are ignored',
    '<link rel="self" href="/"/><resource rel="svc:a"><b/></resource>',
    {},
  ],
  [
    'a member called resource or link',
    '<resource><id>1</id></resource><link>x</link>',
    { resource: { id: '1' }, link: 'x' },
  ],
  ['attributes, which are ignored', '<a b="1" c=\'"\'>x</a>', { a: 'x' }],
  ['names with a meaning elsewhere', '<toString>x</toString><valueOf/>', { toString: 'x', valueOf: '' }],
];
for (const [what, inside, value] of taken) {
  test(`XML is read: ${what}`, () => assert.deepEqual(read(`<resource>${inside}</resource>`), value));
}

test('an array of all values is members without a name', () => {
  assert.deepEqual(read('<resource><member><a>1</a></member><member><a>2</a></member></resource>'), [
    { a: '1' },
    { a: '2' },
  ]);
});

test('a member named like the prototype of an object is an ordinary member', () => {
  const value = parseXml(Buffer.from('<resource><member name="__proto__"><a>1</a></member></resource>'), new Set());
  assert.deepEqual(Object.keys(value as object), ['__proto__']);
  assert.equal('a' in {}, false);
});

test('a declaration and a byte order mark may precede the root', () => {
  assert.deepEqual(read('\ufeff<?xml version="1.0" encoding="utf-8"?>\n<!-- x --><resource><a>x</a></resource>\n'), {
    a: 'x',
  });
});

const entity = (dtd: string, use = '&x;'): string => `<!DOCTYPE resource ${dtd}><resource><a>${use}</a></resource>`;
const laughs = Array.from({ length: 9 }, (_, index) => `<!ENTITY l${index + 1} "${`&l${index};`.repeat(10)}">`);

const refused: readonly (readonly [what: string, xml: string | Buffer, message: RegExp, field?: string])[] = [
  ['nothing', '', /Start tag expected/],
  ['no XML', '{"a":1}', /line 1, column 1/],
  ['an element that is not closed', '<resource>\n <a>x</resource>', /line 2, column 6: .*'a'/],
  ['an attribute twice', '<resource a="1" a="2"/>', /line 1, column \d+: .*'a'/],
  ['another root', '<webhook/>', /one element named resource/],
  ['two roots', '<resource/><resource/>', /one element named resource/],
  ['text as the root', '<resource>x</resource>', /contains elements/],
  ['text beside elements', '<resource><a>x<b/></a></resource>', /cannot be mixed/, 'a'],
  ['text beside links', '<resource>x<link rel="a"/></resource>', /cannot be mixed/],
  ['a name and an item', '<resource><a><member/><b/></a></resource>', /item of an array/, 'a'],
  [
    'a name that the parser refuses',
    '<resource><constructor/></resource>',
    /<member name="constructor">/,
    'constructor',
  ],
  ['a DOCTYPE', entity('[]', ''), /DOCTYPE.*line 1, column 1/],
  ['a DOCTYPE inside', '<resource><!DOCTYPE a></resource>', /DOCTYPE/],
  ['a DOCTYPE between comments', '<?x <!-- ?><!DOCTYPE a><?x --> ?><resource/>', /DOCTYPE/],
  ['an internal entity', entity('[<!ENTITY x "y">]'), /DOCTYPE/],
  ['an external entity', entity('[<!ENTITY x SYSTEM "file:///etc/passwd">]'), /DOCTYPE/],
  ['an external DTD', entity('SYSTEM "http://127.0.0.1/x.dtd"', ''), /DOCTYPE/],
  ['a billion laughs', entity(`[<!ENTITY l0 "lol">${laughs.join('')}]`, '&l9;'), /DOCTYPE/],
  ['an unknown entity', '<resource><a>&nbsp;</a></resource>', /Allowed are the entities/, 'a'],
  ['an unknown entity in an attribute', '<resource><a b="&x;"/></resource>', /Allowed are the entities/, 'a'],
  ['a reference to an invalid character', '<resource><a>&#1;</a></resource>', /Allowed are the entities/, 'a'],
  ['a reference to half of a pair', '<resource><a>&#xD800;</a></resource>', /Allowed are the entities/, 'a'],
  ['a reference beyond Unicode', `<resource><a>&#${'9'.repeat(400)};</a></resource>`, /Allowed are the entities/, 'a'],
  ['a reference to NUL', '<resource><a>&#0;</a></resource>', /Allowed are the entities/, 'a'],
  ['NUL', '<resource><a>\0</a></resource>', /NUL/],
  ['NUL in base64', '<resource><a encoding="base64">AA==</a></resource>', /NUL/, 'a'],
  ['a control character', '<resource>\n<a>x\u0001</a></resource>', /line 2, column 5/],
  ['broken UTF-8', Buffer.from([...Buffer.from('<resource><a>'), 0xff]), /UTF-8/],
  ['another encoding', '<?xml version="1.0" encoding="ISO-8859-1"?><resource/>', /UTF-8/],
  ['UTF-16', Buffer.from('\ufeff<resource/>', 'utf16le'), /UTF-8/],
  ['invalid base64', '<resource><a encoding="base64">*</a></resource>', /base64/, 'a'],
  ['base64 of invalid UTF-8', '<resource><a encoding="base64">/w==</a></resource>', /base64/, 'a'],
  ['another encoding of a text', '<resource><a encoding="hex">00</a></resource>', /base64/, 'a'],
  ['a comment without an end', '<resource><!-- </resource>', /not closed/],
  ['CDATA without an end', '<resource><a><![CDATA[</a></resource>', /not closed/],
  ['less-than in an attribute', '<resource><a b="<"/></resource>', /&lt;/, 'a'],
  ['101 levels', `${'<resource>'.repeat(101)}${'</resource>'.repeat(101)}`, /100 levels/],
  ['too many tags', `<resource>${'<a/>'.repeat(25_000)}</resource>`, /25000 tags/],
  [
    'too many attributes',
    `<resource><a ${Array.from({ length: 5_001 }, (_, n) => `a${n}=""`).join(' ')}/></resource>`,
    /5000 attributes/,
  ],
  ['too many references', `<resource><a>${'&amp;'.repeat(25_001)}</a></resource>`, /25000 references/],
  ['a name without an end', `<resource><${'a'.repeat(1_001)}/></resource>`, /1000 characters/],
  ['the same of an attribute', `<resource><a ${'a'.repeat(1_001)}=""/></resource>`, /1000 characters/, 'a'],
];
for (const [what, xml, message, field] of refused) {
  test(`XML is refused with 400: ${what}`, () => {
    const fault = refusal(xml);
    assert.equal(fault?.status, 400);
    assert.equal(fault.code, 'malformed_body');
    assert.match(fault.message ?? '', message);
    assert.equal(fault.field, field);
  });
}

test('100 levels are accepted', () => {
  assert.equal(refusal(`<resource>${'<a>'.repeat(99)}${'</a>'.repeat(99)}</resource>`), undefined);
});

test('a body in XML is a mebibyte at most', () => {
  const ofLength = (length: number) => `<resource>${' '.repeat(length - '<resource></resource>'.length)}</resource>`;
  assert.equal(refusal(ofLength(1024 * 1024)), undefined);
  assert.equal(refusal(ofLength(1024 * 1024 + 1))?.status, 413);
});

test('a mebibyte built to be slow is read quickly', () => {
  const parts = ['<a>', '<', '<a ', '<!--', '<?a ', '<![CDATA[', '<a b="', '&', '&#', '&amp;', ' ', '\r', '<!ENTITY '];
  const bodies = ['<resource>', '<resource a="', '<resource><a>'].flatMap((start) =>
    parts.map((part) => start + part.repeat((1024 * 1024 - start.length) / part.length)),
  );
  for (const body of [...bodies, `<resource><a encoding="base64">${' '.repeat(1_000_000)}!</a></resource>`]) {
    const before = process.threadCpuUsage();
    assert.equal(refusal(body)?.status, 400, body.slice(0, 20));
    assert.ok(process.threadCpuUsage(before).user < 3_000_000, body.slice(0, 20));
  }
});

/** What remains of a value in XML: texts, nothing equal to empty, and one value equal to an array of it. */
function one(value: Value): unknown {
  if (value === null || typeof value !== 'object') return String(value ?? '').toWellFormed();
  if (Array.isArray(value)) return value.length === 0 ? '' : value.map((item: Value) => one(item));
  const members = Object.entries(value).map(([name, member]) => [legal(name), all(member)] as const);
  return members.length === 0 ? '' : Object.fromEntries(members);
}
const all = (value: Value): unknown => one(Array.isArray(value) && value.length === 1 ? (value[0] as Value) : value);
const legal = (name: string): string =>
  name.replace(/[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd');

test('every written document can be read back', () => {
  const name = anyName.map(legal);
  fc.assert(
    fc.property(name, valueWith(name), (own, value) => {
      // A NUL is written, and never accepted.
      fc.pre(!JSON.stringify(value).includes('\\u0000'));
      const document = { name: '', links: [], embedded: [], properties: [{ name: own, value, kind: 'json' as const }] };
      assert.deepEqual(read(renderXml(document, naming)), JSON.parse(JSON.stringify({ [own]: all(value) })));
    }),
    { numRuns: 500 },
  );
});
