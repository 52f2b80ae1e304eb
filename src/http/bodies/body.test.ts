import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Problem, type Fault } from '#core/problem.ts';
import { parseBody, parseForm, coerceMembers } from './body.ts';
import { parseJson } from './json-body.ts';
import { Type } from 'typebox';

const bytes = (text: string): Buffer => Buffer.from(text);

function faultOf(run: () => unknown): (Fault & { status: number }) | undefined {
  try {
    run();
    return undefined;
  } catch (error) {
    if (!(error instanceof Problem) || error.faults[0] === undefined) throw error;
    return { status: error.status, ...error.faults[0] };
  }
}

test('arbitrary JSON is read unchanged', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = JSON.stringify(value);
      const fault = faultOf(() => assert.deepEqual(parseJson(bytes(text)), JSON.parse(text)));
      // A NUL is refused, nothing else is.
      assert.equal(fault?.message.includes('NUL') ?? false, text.includes('\\u0000'));
    }),
  );
});

const refused: readonly (readonly [name: string, body: Buffer, message: RegExp, field?: string])[] = [
  ['a member twice', bytes('{"a":1,"b":{"c":1,"c":2}}'), /b\.c occurs twice/, 'b.c'],
  ['a member twice under another spelling', bytes('{"a":1,"\\u0061":2}'), /a occurs twice/, 'a'],
  ['a member twice in an array', bytes('[{"a":1},{"a":1,"a":1}]'), /1\.a occurs twice/, '1.a'],
  ['no JSON', bytes('{"a":\n 1,}'), /JSON \(line 2, column \d+: \w+\)/],
  ['nothing', bytes(''), /not valid JSON/],
  ['no UTF-8', Buffer.from([0x22, 0xff, 0x22]), /not valid UTF-8/],
  ['a NUL', Buffer.from('{"a":"\0"}'), /NUL/],
  ['an escaped NUL', bytes('{"a":{"b":"x\\u0000"}}'), /NUL/, 'a.b'],
  ['half of a surrogate pair', bytes('{"a":["\\ud800"]}'), /half of a surrogate pair/, 'a.0'],
  ['the other half', bytes('{"a":"x\\udfff"}'), /half of a surrogate pair/, 'a'],
  [
    'a number that would become null',
    bytes('{"a":[1,{"b":1e999}]}'),
    /a\.1\.b is too large for a number: send a smaller one/,
    'a.1.b',
  ],
  ['a negative number that would become null, at the top level', bytes('-1e999'), /The body is too large for a number/],
  ['half of a surrogate pair in a name', bytes('{"a":{"\\ud83d":1}}'), /name contains half/, 'a'],
];

for (const [name, body, message, field] of refused) {
  test(`refused with 400: ${name}`, () => {
    const fault = faultOf(() => parseJson(body));
    assert.equal(fault?.status, 400);
    assert.match(fault?.message ?? '', message);
    assert.equal(fault?.field, field);
  });
}

test('an object in a form is JSON, and its faults are named after its field', () => {
  const form = (text: string) =>
    parseBody(bytes(`resource=${encodeURIComponent(text)}`), 'application/x-www-form-urlencoded', {
      arrays: new Set(),
      objects: new Set(['resource']),
    });
  assert.deepEqual({ ...(form('{"id":1}') as object) }, { resource: { id: 1 } });
  assert.equal(faultOf(() => form('{"a":{"b":1,"b":2}}'))?.field, 'resource.a.b');
  const broken = faultOf(() => form('{'));
  assert.deepEqual([broken?.status, broken?.field], [400, 'resource']);
  assert.match(broken?.message ?? '', /^resource is not valid JSON/);
});

test('a duplicate member is refused at any depth', () => {
  for (const deep of [`${'['.repeat(20_000)}${']'.repeat(20_000)}`, `${'{"a":'.repeat(101)}1${'}'.repeat(101)}`]) {
    const fault = faultOf(() => parseJson(bytes(`{"a":${deep},"a":1}`)));
    assert.deepEqual([fault?.status, fault?.code], [400, 'malformed_body']);
  }
});

test('a complete surrogate pair is a character', () => {
  assert.deepEqual(parseJson(bytes('{"\\ud83d\\ude80":"\\ud83d\\ude80"}')), { '\u{1f680}': '\u{1f680}' });
});

test('text inside strings that looks like members is text', () => {
  for (const text of ['{"tags":["a",":b"]}', '{"a":"\\":","b":": "}', '["\\\\",":"]']) {
    assert.deepEqual(parseJson(bytes(text)), JSON.parse(text), text);
  }
});

test('a body built to be slow or deep is refused or read quickly', () => {
  const quotes = bytes(JSON.stringify({ name: '"'.repeat(400_000) }));
  const fields = bytes('events=&'.repeat(120_000));
  const before = process.threadCpuUsage();
  parseJson(quotes);
  assert.throws(() => parseForm(fields), /more than 1000 fields/);
  for (const deep of ['['.repeat(200_000), `{"a":1,"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`]) {
    assert.equal(faultOf(() => parseJson(bytes(deep)))?.status, 400);
  }
  assert.ok(process.threadCpuUsage(before).user < 2_000_000);
});

test('colons and braces inside strings are not members', () => {
  assert.deepEqual(parseJson(bytes('{"a":"\\"b\\":1,{\\"a\\":2}","b":"a\\\\"}')), { a: '"b":1,{"a":2}', b: 'a\\' });
});

test('an empty text in a form, like an empty element in XML, is an empty array', () => {
  const ofForm = parseBody(bytes('events='), 'application/x-www-form-urlencoded', { arrays: new Set(['events']) });
  const ofXml = parseBody(bytes('<resource><events/></resource>'), 'application/xml', { arrays: new Set(['events']) });
  assert.deepEqual({ ...(ofForm as object) }, { events: [] });
  assert.deepEqual({ ...(ofXml as object) }, { events: [] });
});

test('a form repeats arrays in three ways only', () => {
  const form = (text: string) =>
    parseBody(bytes(text), 'application/x-www-form-urlencoded', { arrays: new Set(['events']) });
  assert.deepEqual({ ...(form('events=a&events=b&x=1') as object) }, { events: ['a', 'b'], x: '1' });
  assert.deepEqual({ ...(form('events[]=a&events[]=b') as object) }, { events: ['a', 'b'] });
  assert.deepEqual({ ...(form('events[0]=a&events[1]=b') as object) }, { events: ['a', 'b'] });
  assert.equal(faultOf(() => form('x=1&x=2'))?.field, 'x');
});

test('a form has a thousand fields at most', () => {
  const formOf = (fields: number) => bytes(Array.from({ length: fields }, () => 'a').join('&'));
  assert.equal(parseForm(formOf(1_000)).size, 1_000);
  assert.equal(faultOf(() => parseForm(formOf(1_001)))?.status, 400);
});

test('a form is percent-encoded UTF-8 without NUL', () => {
  assert.equal(parseForm(bytes('a=%2B+%C3%A9')).get('a'), '+ é');
  for (const text of ['a=%FF', 'a=%zz', 'a=%00'])
    assert.equal(faultOf(() => parseForm(bytes(text)))?.status, 400, text);
});

test('another content type is refused with 415', () => {
  assert.equal(faultOf(() => parseBody(bytes('x'), 'text/csv', { arrays: new Set() }))?.status, 415);
  assert.deepEqual(parseBody(bytes('{}'), 'Application/JSON; charset=utf-8', { arrays: new Set() }), {});
});

test('a body in another charset than UTF-8 is refused with 415', () => {
  for (const charset of ['iso-8859-1', '"utf-16"']) {
    assert.equal(
      faultOf(() => parseBody(bytes('{}'), `application/json; charset=${charset}`, { arrays: new Set() }))?.status,
      415,
    );
  }
  assert.deepEqual(parseBody(bytes('{}'), 'application/json; charset="UTF-8"', { arrays: new Set() }), {});
});

test('as many numbers as a body may keep are read as they are written, and one more is refused with the reason', () => {
  const body = (count: number) => bytes(`[${'1.0,'.repeat(count)}0]`);
  const kept = parseJson(body(50_000), { keepsNumbers: true }) as unknown[];
  assert.equal(String(kept[0]), '1.0');
  assert.match(
    faultOf(() => parseJson(body(50_001), { keepsNumbers: true }))?.message ?? '',
    /more than 50000 numbers such as 12\.50 or 1e3: send it in parts/,
  );
});

const schema = Type.Object({
  text: Type.String(),
  count: Type.Unsafe<number | null>({ type: ['integer', 'null'] }),
  headers: Type.Unsafe<Record<string, string> | null>({ type: ['object', 'null'] }),
  ids: Type.Array(Type.Integer()),
  inner: Type.Object({ count: Type.Integer() }),
});

const cases: readonly (readonly [what: string, given: Record<string, unknown>, meant: Record<string, unknown>])[] = [
  ['a text stays a text', { text: '1' }, { text: '1' }],
  ['an integer', { count: '-12' }, { count: -12 }],
  ['no integer', { count: '1.5' }, { count: '1.5' }],
  ['nothing', { count: '', headers: ' \n' }, { count: null, headers: null }],
  ['the items of an array', { ids: ['1', '2', 'x'] }, { ids: [1, 2, 'x'] }],
  ['the members of an object', { inner: { count: '3', other: '4' } }, { inner: { count: 3, other: '4' } }],
  ['lines', { headers: 'X-A: 1\r\n X-B :a: b \n\nX-C:' }, { headers: { 'X-A': '1', 'X-B': 'a: b', 'X-C': '' } }],
  ['JSON', { headers: ' {"X-A":"1"}' }, { headers: { 'X-A': '1' } }],
  ['a name twice', { headers: 'a: 1\na: 2' }, { headers: 'a: 1\na: 2' }],
  ['a line without a name', { headers: 'a: 1\nb' }, { headers: 'a: 1\nb' }],
  ['a line with an empty name', { headers: ': b' }, { headers: ': b' }],
  ['broken JSON', { headers: '{"a":' }, { headers: '{"a":' }],
  ['JSON with a name twice', { headers: '{"a":"1","a":"2"}' }, { headers: '{"a":"1","a":"2"}' }],
  ['as many lines as are read', { headers: `a: ${'1'.repeat(32_765)}` }, { headers: { a: '1'.repeat(32_765) } }],
  ['too many lines', { headers: `a: ${'1'.repeat(32_766)}` }, { headers: `a: ${'1'.repeat(32_766)}` }],
  ['an unknown member', { other: '5' }, { other: '5' }],
];
for (const [what, given, meant] of cases) {
  test(`a text is converted according to the schema: ${what}`, () =>
    assert.deepEqual(coerceMembers(schema, given), meant));
}
