import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { conditionsOf, type Condition, type Filter } from '#core/listing.ts';
import { Problem } from '#core/problem.ts';
import { OPERATORS, readListing, type Listable } from './list-query.ts';

const things: Listable = {
  properties: { id: 'number', name: 'text', date_created: 'date', is_active: 'boolean', key: 'none' },
  isOpen: false,
  relations: undefined,
};
const open: Listable = { ...things, isOpen: true, relations: { items: { options: {} } } };

const read = (query: string, listable = things) => readListing(new URLSearchParams(query), listable);
const filters = (query: string, listable = things): Filter[] => [...read(query, listable).listing.filters];
function faults(query: string, listable = things): string[] {
  try {
    read(query, listable);
    return [];
  } catch (error) {
    assert.ok(error instanceof Problem && error.status === 400);
    return error.faults.map(({ field = '-', code }) => `${field} ${code}`);
  }
}

test('without a query a listing has the first twenty items, unordered and unfiltered', () => {
  assert.deepEqual(read(''), {
    listing: { offset: 0, limit: 20, order: [], filters: [] },
    fields: null,
    zoom: {},
  });
});

test('order names properties, each with its direction', () => {
  assert.deepEqual(read('order=date_created desc,name').listing.order, [
    { property: 'date_created', descending: true },
    { property: 'name', descending: false },
  ]);
  assert.deepEqual(read('order= name  asc ').listing.order, [{ property: 'name', descending: false }]);
});

test('fields may name any property of an item', () => {
  assert.deepEqual(read('fields=name, key').fields, new Set(['name', 'key']));
});

test('zoom names relations if there are any', () => {
  assert.deepEqual(read('zoom=items:options', open).zoom, { items: { options: {} } });
});

const typed: [string, Filter['operator'], Filter['value']][] = [
  ['id=7', 'is', 7],
  ['id:not=7', 'not', 7],
  ['id:greaterthan=-1.5', 'greaterthan', -1.5],
  ['id:lessthan=9007199254740991', 'lessthan', 9007199254740991],
  ['id=', 'is', null],
  ['id:not=', 'not', null],
  ['is_active=1', 'is', true],
  ['is_active=true', 'is', true],
  ['is_active=0', 'is', false],
  ['is_active:not=false', 'not', false],
  ['name=x', 'is', 'x'],
  ['name:not=x', 'not', 'x'],
  ['name:greaterthan=m', 'greaterthan', 'm'],
  ['name=', 'is', null],
  ['name=*part*', 'like', '*part*'],
  ['name:not=a*', 'unlike', 'a*'],
  [String.raw`name=5\*5`, 'is', '5*5'],
  [String.raw`name=5\**`, 'like', String.raw`5\**`],
  [String.raw`name=a\\*`, 'like', String.raw`a\\*`],
  [String.raw`name=C:\x`, 'is', String.raw`C:\x`],
  ['name=100%25_', 'is', '100%_'],
  ['date_created=2026-11-20', 'is', new Date('2026-11-20T00:00:00Z')],
  ['date_created:greaterthan=2026-11-20T16:05:03%2B0100', 'greaterthan', new Date('2026-11-20T15:05:03Z')],
  ['date_created:greaterthan=2026-11-20T16:05:03+0100', 'greaterthan', new Date('2026-11-20T15:05:03Z')],
  ['date_created:lessthan=2026-11-20T16:05:03-01:30', 'lessthan', new Date('2026-11-20T17:35:03Z')],
  ['date_created:not=2026-11-20T16:05:03.250Z', 'not', new Date('2026-11-20T16:05:03.250Z')],
  ['date_created=2026-11-20T16:05', 'is', new Date('2026-11-20T16:05:00Z')],
  ['date_created:greaterthanorequal=2026-11-20', 'greaterthanorequal', new Date('2026-11-20T00:00:00Z')],
  ['id:lessthanorequal=7', 'lessthanorequal', 7],
  ['id:isnull=1', 'is', null],
  ['is_active:isnull=true', 'is', null],
  ['name:isnull=0', 'not', null],
  ['date_created:isnull=false', 'not', null],
];
for (const [query, operator, value] of typed) {
  test(`${query} compares with a value of the property's own kind`, () => {
    assert.deepEqual(filters(query), [{ property: query.split(/[:=]/)[0], operator, value }]);
  });
}

const alternatives: [string, [Condition['operator'], Condition['value']][]][] = [
  [
    'id:in=7,-1.5,',
    [
      ['is', 7],
      ['is', -1.5],
      ['is', null],
    ],
  ],
  ['is_active:in=1,true,0', [1, true, 0].map((value) => ['is', Boolean(value)])],
  [
    String.raw`name:in=a\,b,c*,a\,b,\*`,
    [
      ['is', 'a,b'],
      ['like', 'c*'],
      ['is', '*'],
    ],
  ],
  [
    'date_created:in=2026-11-20,2026-11-21T10:00Z',
    [
      ['is', new Date('2026-11-20T00:00Z')],
      ['is', new Date('2026-11-21T10:00Z')],
    ],
  ],
  ['name:in=', [['is', null]]],
];
for (const [query, expected] of alternatives) {
  test(`${query} has one condition for each of its values`, () => {
    const property = query.split(':')[0] ?? '';
    const value = expected.map(([operator, one]) => ({ property, operator, value: one }));
    assert.deepEqual(filters(query), [{ property, operator: 'in', value }]);
  });
}

const many = (count: number, part: (n: number) => string, by: string) =>
  Array.from({ length: count }, (_, n) => part(n)).join(by);

test('a query may have 20 filters, and each of them 500 values', () => {
  assert.equal(
    filters(
      many(20, (n) => `x${n}=1`, '&'),
      open,
    ).length,
    20,
  );
  const [filter] = filters(`id:in=${many(500, (n) => String(n), ',')}`);
  assert.equal(filter === undefined ? 0 : conditionsOf(filter).length, 500);
});

test('several operators narrow one property', () => {
  const range = filters('id:greaterthan=1&id:lessthan=9&id:not=5');
  assert.deepEqual(
    range.map(({ operator, value }) => [operator, value]),
    [
      ['greaterthan', 1],
      ['lessthan', 9],
      ['not', 5],
    ],
  );
});

const refused: [string, string[]][] = [
  ['colour=red', ['colour unknown_parameter']],
  ['colour:not=red', ['colour:not unknown_parameter']],
  ['name:like=x', ['name:like unknown_parameter']],
  ['name:=x', ['name: unknown_parameter']],
  ['name:not:not=x', ['name:not:not unknown_parameter']],
  ['limit:not=1', ['limit:not unknown_parameter']],
  ['__proto__=1', ['__proto__ unknown_parameter']],
  ['name:constructor=1', ['name:constructor unknown_parameter']],
  ['zoom=items', ['zoom unknown_parameter']],
  ['name=a&name=b', ['name duplicate_parameter']],
  ['name:not=a&name:not=b', ['name:not duplicate_parameter']],
  ['order=name&order=id', ['order duplicate_parameter']],
  ['fields=name&fields=id', ['fields duplicate_parameter']],
  ['key=x', ['key invalid_parameter']],
  ['order=key', ['order invalid_parameter']],
  ['order=colour', ['order unknown_property']],
  ['order=constructor', ['order unknown_property']],
  ['order=name up', ['order invalid_parameter']],
  ['order=name desc desc', ['order invalid_parameter']],
  ['order=', ['order invalid_parameter']],
  ['order=id;drop table store', ['order unknown_property']],
  [`order=${many(6, () => 'id', ',')}`, ['order too_many']],
  ['fields=name,colour,size', ['fields unknown_property', 'fields unknown_property']],
  ['fields=', ['fields invalid_parameter']],
  [`fields=${many(101, () => 'id', ',')}`, ['fields too_many']],
  [many(21, (n) => `x${n}=1`, '&'), ['- too_many']],
  ['id=x', ['id invalid_parameter']],
  ['id=1*', ['id invalid_parameter']],
  ['id=9007199254740993', ['id invalid_parameter']],
  ['id=1e3', ['id invalid_parameter']],
  ['id:greaterthan=', ['id:greaterthan invalid_parameter']],
  ['id:greaterthanorequal=', ['id:greaterthanorequal invalid_parameter']],
  ['id:in=1,x', ['id:in invalid_parameter']],
  ['is_active:lessthanorequal=1', ['is_active:lessthanorequal unknown_parameter']],
  ['name:isnull=yes', ['name:isnull invalid_parameter']],
  ['name:isnull=', ['name:isnull invalid_parameter']],
  ['name:in=a&name:in=b', ['name:in duplicate_parameter']],
  [`id:in=${many(501, (n) => String(n), ',')}`, ['id:in invalid_parameter']],
  [`name:in=a,${'x'.repeat(1_001)}`, ['name:in invalid_parameter']],
  [`name:in=${many(21, (n) => `*${n}`, ',')}`, ['- too_many']],
  ['/name=x', ['/name invalid_parameter']],
  ['/key/x:in=1,2', ['/key/x:in invalid_parameter']],
  ['order=/key/x', ['order unknown_property']],
  ['is_active=yes', ['is_active invalid_parameter']],
  ['is_active:lessthan=1', ['is_active:lessthan unknown_parameter']],
  ['date_created=2026-02-30', ['date_created invalid_parameter']],
  ['date_created=2026-11-20T24:00Z', ['date_created invalid_parameter']],
  ['date_created=2026-11-20T10:00:00%2B9900', ['date_created invalid_parameter']],
  ['date_created=0000-01-01', ['date_created invalid_parameter']],
  ['date_created=9999-12-31T23:00-0200', ['date_created invalid_parameter']],
  ['date_created=yesterday', ['date_created invalid_parameter']],
  ['name=a%00', ['name invalid_parameter']],
  ['name=*%00', ['name invalid_parameter']],
  [`name=${'x'.repeat(1_001)}`, ['name invalid_parameter']],
  [
    'colour=red&id=x&limit=0&offset=x&order=size,key&fields=colour',
    [
      'colour unknown_parameter',
      'id invalid_parameter',
      'offset invalid_parameter',
      'limit invalid_parameter',
      'order unknown_property',
      'order invalid_parameter',
      'fields unknown_property',
    ],
  ],
];
for (const [query, expected] of refused) {
  test(`${query.slice(0, 80)} is refused, with all its faults`, () => {
    assert.deepEqual(faults(query), expected);
  });
}

test('a message lists the possible values', () => {
  assert.throws(() => read('colour=red'), /"colour".*offset, limit, order, fields, id, name, date_created, is_active$/);
  assert.throws(() => read('order=colour'), /"colour".*id, name, date_created, is_active$/);
  assert.throws(() => read('fields=colour'), /"colour".*id, name, date_created, is_active, key$/);
});

test('a message names the operators, and the lists that have JSON Pointers', () => {
  assert.throws(() => read('name:like=x'), /name, name:not, name:in, .*, name:lessthanorequal, name:isnull$/);
  assert.throws(() => read('is_active:lessthan=1'), /is_active, is_active:not, is_active:in, is_active:isnull$/);
  assert.throws(() => read('/name/x=1'), /list, which is not one of published resources; possible: id, name/);
});

const published: Listable = { ...things, isPublished: true };

test('a pointer leads to any member of published JSON, and in a closed list to those below its structured properties', () => {
  for (const pointer of ['/key/x', '/key', '/name/x', '/_embedded/svc:items/0/a~1b~0', '/'])
    for (const operator of ['', ':not', ':in', ':lessthanorequal', ':isnull']) {
      const [filter] = filters(`${pointer}${operator}=1`, open);
      assert.equal(filter?.property, pointer);
    }
  assert.deepEqual(filters('/key/x:lessthanorequal=1', published), [
    { property: '/key/x', operator: 'lessthanorequal', value: 1 },
  ]);
  assert.deepEqual(read('order=/key/x desc', published).listing.order, [{ property: '/key/x', descending: true }]);
  for (const pointer of ['/key', '/name/x', '/other/x', '/'])
    assert.deepEqual(faults(`${pointer}=1`, published), [`${pointer} unknown_parameter`]);
  assert.throws(() => read('/other/x=1', published), /a JSON Pointer below \/key$/);
  const long = '/a'.repeat(33);
  const related = '/_embedded/a'.repeat(5);
  for (const pointer of ['/a~2', '/~', '/a\0', '/a\n', long, related, `/${'x'.repeat(1_000)}`])
    assert.deepEqual(faults(`${encodeURIComponent(pointer)}=1`, open).length, 1, pointer);
  assert.deepEqual(filters(`${long.slice(2)}=1`, open).length, 1);
  assert.deepEqual(filters(`${related.slice('/_embedded/a'.length)}=1`, open).length, 1);
});

test('zoom is no property of an open collection without relations', () => {
  assert.deepEqual(faults('zoom=items', { ...open, relations: undefined }), ['zoom unknown_parameter']);
});

const guessed: [string, Filter['operator'], Filter['value']][] = [
  ['total=12.5', 'is', 12.5],
  ['total:greaterthan=12.50', 'greaterthan', 12.5],
  ['postal_code=01234', 'is', '01234'],
  ['sku:not=1.50', 'not', '1.50'],
  ['sku=12*', 'like', '12*'],
  ['sku=', 'is', null],
  ['date_shipped:lessthan=2026-11-20', 'lessthan', new Date('2026-11-20T00:00:00Z')],
  ['__proto__=x', 'is', 'x'],
];
for (const [query, operator, value] of guessed) {
  test(`${query} compares an undeclared property according to the form of its value`, () => {
    assert.deepEqual(filters(query, open), [{ property: query.split(/[:=]/)[0], operator, value }]);
  });
}

test('an open collection is ordered and filtered by any unambiguous name, and by no other', () => {
  for (const name of ['9lives', 'a-b', 'a.b', 'größe', '@type', 'x'.repeat(64)]) {
    assert.deepEqual(read(`order=${name} desc`, open).listing.order, [{ property: name, descending: true }]);
    assert.deepEqual(filters(`${name}:not=1`, open), [{ property: name, operator: 'not', value: 1 }]);
  }
  assert.deepEqual(faults(`${'x'.repeat(65)}=1&a%00b=1&a b=1&a%3Db=1&a,b=1&zoom:not=1&order=a%3Db`, open), [
    '*** unknown_parameter',
    'a\0b unknown_parameter',
    'a b unknown_parameter',
    'a=b unknown_parameter',
    'a,b unknown_parameter',
    'zoom:not unknown_parameter',
    'order unknown_property',
  ]);
});

test('fields of an open collection may be any name', () => {
  const long = 'x'.repeat(200);
  assert.deepEqual(read(`fields=a b,a:b,limit,${long}`, open).fields, new Set(['a b', 'a:b', 'limit', long]));
});

const names = [
  'offset',
  'limit',
  'order',
  'fields',
  'zoom',
  'id',
  'name',
  'date_created',
  'is_active',
  'key',
  'total',
  '__proto__',
  '/key/x',
  '/_embedded/svc:items/0',
];
const ends = ['', ':', ':toString', ...OPERATORS.map((operator) => `:${operator}`)];
const value = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom(
    '1',
    '0',
    '-0',
    '',
    '*',
    '\\*',
    'name desc',
    'id,name',
    '2026-11-20T16:05:03 0000',
    '99999999999999999',
  ),
  fc.date({ noInvalidDate: true }).map(String),
  fc.double().map(String),
);
const pair = fc.tuple(
  fc.oneof(
    fc.tuple(fc.constantFrom(...names), fc.constantFrom(...ends)).map((parts) => parts.join('')),
    fc.string(),
  ),
  value,
);

/** What PostgreSQL accepts as a value. */
function isSound({ value: found }: Condition): boolean {
  if (typeof found === 'number') return Math.abs(found) <= Number.MAX_SAFE_INTEGER;
  if (typeof found === 'string') return found !== '' && !found.includes('\0') && found.length <= 2_000;
  return found instanceof Date ? /^[0-9]{4}-/.test(found.toISOString()) : true;
}

test('any query gives a listing or a 400, and nothing else', () => {
  fc.assert(
    fc.property(fc.array(pair, { maxLength: 6 }), fc.constantFrom(things, open), (pairs, listable) => {
      try {
        const { listing } = readListing(new URLSearchParams(pairs), listable);
        assert.ok(listing.filters.flatMap(conditionsOf).every(isSound));
      } catch (error) {
        assert.ok(error instanceof Problem && error.status === 400 && error.faults.length > 0, String(error));
      }
    }),
    { numRuns: 5_000 },
  );
});
