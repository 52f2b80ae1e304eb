/** XML and Siren have the content of HAL also for values, names and links that no resource of golden.test.ts has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { json, text, type Document } from '#hypermedia/document.ts';
import { renderHal } from '#hypermedia/hal.ts';
import { renderSiren } from '#hypermedia/siren.ts';
import { renderXml } from '#hypermedia/xml.ts';
import { naming } from '../setup/documents.ts';
import { assertSameLines } from '../setup/golden.ts';
import { sirenAndHal, xmlAndHal } from './round-trip.ts';
import { readSiren } from './siren-outline.ts';

const href = 'https://api.example.com/things';

const child: Document = {
  name: 'part',
  links: [{ rel: 'self', href: `${href}/2`, title: 'A "part" of <it> & more' }],
  embedded: [{ rel: 'owner', single: true, documents: [{ name: 'owner', links: [], embedded: [], properties: [] }] }],
  properties: [text('name', ' a\r\n\tb ')],
};

const values = {
  control: 'a\u0001',
  markup: '<b>&"\']]></b>',
  emoji: '\u{1f680}',
  number: 0.5,
  flags: [true, false],
  nothing: null,
  lists: [[1, 2], [], [['x']]],
  'a name with blanks': { member: 'x', link: { rel: 'y' }, resource: [1] },
};

const whole: Document = {
  name: 'thing',
  links: [
    { rel: 'self', href, type: 'text/plain' },
    { rel: 'search', href: `${href}{?q}`, templated: true },
    { rel: 'part', href: `${href}/1` },
    { rel: 'part', href: `${href}/2`, title: 'Second' },
  ],
  embedded: [{ rel: 'parts', documents: [child, { ...child, links: [] }] }],
  properties: Object.entries(values).map(([name, value]) => json.orNull(name, value)),
};

const [hal, xml, siren] = [renderHal, renderXml, renderSiren].map((render) => render(whole, naming));
assert.ok(hal !== undefined && xml !== undefined && siren !== undefined);

test('XML has the content of HAL', () => assertSameLines(...xmlAndHal(xml, hal), 'XML (+) differs from HAL (-):'));

test('Siren has the content of HAL', () =>
  assertSameLines(...sirenAndHal(readSiren(siren), hal), 'Siren (+) differs from HAL (-):'));

const xmlChanges = {
  'a value': [/0\.5/, '0.50'],
  'a missing property': [/<nothing><\/nothing>/, ''],
  'an unknown property': [/<nothing>/, '<more>1</more><nothing>'],
  'the order of an array': [/<flags>true<\/flags><flags>false<\/flags>/, '<flags>false</flags><flags>true</flags>'],
  'a title': [/ title="Second"/, ''],
  'an unknown attribute of a link': [/ title="Second"/, ' title="Second" hreflang="en"'],
  'a type': [/ type="text\/plain"/, ''],
  'a template': [/(rels\/search.*?|svc:search.*?) templated="true"/, '$1'],
  'an address of a resource': [/ href="[^"]*\/2"><link/, '><link'],
  'a relation of a resource': [/rel="svc:owner"/, 'rel="svc:user"'],
} as const;

for (const [what, [from, to]] of Object.entries(xmlChanges)) {
  test(`a difference between XML and HAL is found: ${what}`, () => {
    const changed = xml.replace(from, to);
    assert.notEqual(changed, xml);
    const lines = xmlAndHal(changed, hal);
    assert.throws(() => assertSameLines(...lines, what), assert.AssertionError);
  });
}

const sirenChanges = {
  'the type of a value': [/0\.5/, '"0.5"'],
  'a missing property': [/"nothing":null,/, ''],
  'a title': [/,"title":"Second"/, ''],
  'one link more': [/"links":\[(?=\{"rel":\["self"\],"href":"[^"]*","type")/, `$&{"rel":["self"],"href":"${href}"},`],
  'a relation of an entity': [/rels\/owner/, 'rels/user'],
} as const;

for (const [what, [from, to]] of Object.entries(sirenChanges)) {
  test(`a difference between Siren and HAL is found: ${what}`, () => {
    const changed = siren.replace(from, to);
    assert.notEqual(changed, siren);
    const lines = sirenAndHal(readSiren(changed), hal);
    assert.throws(() => assertSameLines(...lines, what), assert.AssertionError);
  });
}
