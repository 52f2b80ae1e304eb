import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assert as assertAll, jsonValue, property } from 'fast-check';
import { html, render } from '#hypermedia/markup.ts';
import { bodyBlock, indentedPieces, isJson } from './delivery-page.ts';

const shown = (body: string, isCut = false): string => render(bodyBlock(body, { name: 'body', isCut }));
const textOf = (json: string): string =>
  indentedPieces(json)
    .map(({ text }) => text)
    .join('');
const escaped = (text: string): string => render(html`${text}`);

test('JSON is indented, and names, texts and other values have classes', () => {
  assert.equal(
    shown('{"a":[1,"x\\"<",{}],"b":null}').replaceAll(/<span class="(\w+)">([^<]*)<\/span>/g, '$1($2)'),
    '<pre class="code">\n{\n  key(&quot;a&quot;): [\n    value(1),\n    text(&quot;x\\&quot;&lt;&quot;),\n    {}\n  ],\n  key(&quot;b&quot;): value(null)\n}</pre>',
  );
});

test('JSON keeps the spelling of its numbers, repeated names and their order', () => {
  const json = '{"2":1.0,"1":12345678901234567890,"2":1e3}';
  assert.equal(textOf(json).replaceAll(/\s/g, ''), json);
});

test('any JSON keeps its tokens, and its indentation is that of JSON.stringify', () => {
  assertAll(
    property(jsonValue({ maxDepth: 6 }), (value) => {
      const json = JSON.stringify(value);
      if (!isJson(json)) return;
      const indented = textOf(json);
      assert.deepEqual(JSON.parse(indented), JSON.parse(json));
      assert.equal(indented, JSON.stringify(JSON.parse(json), null, 2));
    }),
  );
});

test('a text that is not JSON is shown as it is, without markup of its own', () => {
  for (const text of ['<b>no</b>', '{"a":', '[1,]', 'plain', '"text"'])
    assert.equal(shown(text), `<pre class="copyable">\n${escaped(text)}</pre>`);
});

test('JSON that is cut is indented as far as it goes', () => {
  assert.equal(textOf('{"a":{"b":"c'), '{\n  "a": {\n    "b": "c');
  assert.match(shown('{"a":"b\\', true), /class="key"/);
});

test('long bodies are folded, with their size', () => {
  assert.match(shown(JSON.stringify(Array.from({ length: 70 }, () => 1))), /<summary>\s*Show the body \(72 lines\)/);
  assert.match(shown('x'.repeat(5_000)), /<summary>\s*Show the body \(5000 characters\)/);
});

/** The most that a page shows of a body. */
const BODY_BYTES = 16 * 1024;
const PAGE_BYTES_MAX = 1_000_000;

test('hostile bodies take a bounded part of the page', () => {
  for (const body of ['[', '[1,', '{"a":', '"\\', '}', '[[],'].map((part) => part.repeat(BODY_BYTES / part.length))) {
    assert.ok(shown(`[${body}`, true).length < PAGE_BYTES_MAX, body.slice(0, 6));
  }
});

test('a body of many values is coloured in part', () => {
  const page = shown(`[${'1,'.repeat(BODY_BYTES / 2)}1]`);
  assert.ok(page.split('<span').length <= 2_001, `${page.split('<span').length}`);
  assert.match(page, /<span class="value">1<\/span>/);
});
