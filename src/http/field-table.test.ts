import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTag } from '#db/statement.ts';
import { columnsOf } from './field-columns-sql.ts';
import {
  comparisonsOf,
  defaultsOf,
  factsOf,
  parserOf,
  propertiesOf,
  schemasOf,
  settingsOf,
  type Fields,
  type RowOf,
} from './field-table.ts';

const shapes = ['round', 'square'] as const;
const fields = {
  id: { kind: 'number' },
  name: { kind: 'text', input: { description: 'A name.', isRequired: true, minLength: 1, maxLength: 20 } },
  shape: {
    kind: 'enumeration',
    choices: () => shapes,
    initial: 'round',
    input: { description: 'A shape.', isClearable: true, isMinor: true },
  },
  size: { kind: 'number', isNullable: true, input: { description: 'A size.', isClearable: true, minimum: 1 } },
  version: { kind: 'text', initial: '2', input: { description: 'A version.', isClearable: true, choices: 'given' } },
  is_open: { kind: 'flag', initial: true, input: { description: 'Open?' } },
  is_old: { kind: 'boolean', input: { description: 'Old?', isFixed: true } },
  tags: { kind: 'list', initial: [], choices: ['a'], input: { description: 'Tags.', maxLength: 5, maxItems: 2 } },
  more: { kind: 'json', initial: {}, input: { description: 'More.', isClearable: true, maxProperties: 2 } },
  api_key: { kind: 'secret', isNullable: true, input: { description: 'A key.', isClearable: true, maxLength: 9 } },
  ends: { kind: 'date', isNullable: true, column: 'ends_at', filterBy: 'sql', isAudited: true },
  is_new: { kind: 'boolean', from: 'sql' },
  state: { kind: 'text', from: 'code', comparison: 'none' },
  date_created: { kind: 'date' },
} as const satisfies Fields;

const row: RowOf<typeof fields> = {
  id: 7,
  name: 'seven',
  shape: 'square',
  size: null,
  version: '3',
  isOpen: true,
  isOld: false,
  tags: ['a'],
  more: {},
  apiKey: Buffer.from('sealed'),
  endsAt: new Date('2026-07-01T10:00:00Z'),
  isNew: true,
  dateCreated: new Date('2026-06-01T10:00:00Z'),
};
const settings = {
  name: 'seven',
  shape: 'square',
  size: null,
  version: '3',
  isOpen: true,
  isOld: false,
  tags: ['a'],
  more: {},
} as const;
const flagValues = ['1', '0', 1, 0, true, false, 'true', 'false', ''];

test('the schemas have each property, with defaults and required members for POST only', () => {
  const { whole, part } = schemasOf(fields, { version: ['2', 2] });
  const optional = (defaults: boolean) => ({
    shape: {
      enum: ['round', 'square', '', null],
      isMinor: true,
      description: 'A shape.',
      ...(defaults && { default: 'round' }),
    },
    size: { type: ['integer', 'null'], description: 'A size.', minimum: 1 },
    version: { enum: ['2', 2, '', null], description: 'A version.', ...(defaults && { default: '2' }) },
    is_open: { enum: flagValues, kind: 'boolean', description: 'Open?', ...(defaults && { default: '1' }) },
    is_old: { enum: flagValues, kind: 'boolean', description: 'Old?' },
    tags: {
      type: 'array',
      items: { type: 'string', maxLength: 5, choices: ['a'] },
      description: 'Tags.',
      maxItems: 2,
    },
    more: { type: ['object', 'null'], description: 'More.', maxProperties: 2 },
    api_key: { type: ['string', 'null'], maxLength: 9, kind: 'secret', description: 'A key.' },
    ...Object.fromEntries(['ends', 'is_new', 'state', 'date_created', 'id'].map((name) => [name, { readOnly: true }])),
  });
  const name = { type: 'string', minLength: 1, maxLength: 20, description: 'A name.' };
  const described = (schema: object): unknown => JSON.parse(JSON.stringify(schema));
  const object = { type: 'object', additionalProperties: false };
  assert.deepEqual(described(whole), { ...object, required: ['name'], properties: { name, ...optional(true) } });
  assert.deepEqual(described(part), { ...object, properties: { name, ...optional(false) } });
});

test('a body is parsed: cleared members have their initial values, and nothing else is added', () => {
  const parse = parserOf(fields);
  assert.deepEqual(parse({}), {});
  assert.deepEqual(parse({ name: 'x', shape: '', size: null, version: 3, is_open: '0', tags: [] }), {
    name: 'x',
    shape: 'round',
    size: null,
    version: '3',
    isOpen: false,
    tags: [],
  });
  assert.deepEqual(parse({ version: '', more: null, api_key: null }), { version: '2', more: {}, apiKey: null });
  assert.deepEqual(parse({ api_key: 'key', is_old: true }), { apiKey: 'key', isOld: true });
  assert.deepEqual(parse({ name: '' }), { name: '' });
});

test('defaults and settings have what requests can write, without required properties or secrets', () => {
  const { name: _, ...optional } = settings;
  const initial = { shape: 'round', version: '2', isOpen: true, isOld: false, tags: [] };
  assert.deepEqual(defaultsOf(fields), { ...optional, ...initial });
  assert.deepEqual(settingsOf(fields)(row), settings);
});

test('the Document has all properties in order, secrets and states only as they are given', () => {
  const properties = propertiesOf(fields)(row, 'UTC', { api_key: null, state: 'fine' });
  assert.deepEqual(properties.slice(0, 3), [
    { name: 'id', value: 7, kind: 'number' },
    { name: 'name', value: 'seven', kind: 'text' },
    { name: 'shape', value: 'square', kind: 'enumeration' },
  ]);
  assert.deepEqual(
    properties.map(({ name, value }) => [name, value]),
    [
      ...Object.entries({
        id: 7,
        name: 'seven',
        shape: 'square',
        size: null,
        version: '3',
        is_open: '1',
        is_old: false,
      }),
      ...Object.entries({ tags: ['a'], more: {}, api_key: null, ends: '2026-07-01T10:00:00+0000', is_new: true }),
      ...Object.entries({ state: 'fine', date_created: '2026-06-01T10:00:00+0000' }),
    ],
  );
  const nullable = properties.flatMap(({ name, mayBeNull }) => (mayBeNull ? [name] : []));
  assert.deepEqual(nullable, ['size', 'api_key', 'ends']);
});

test('a changelog entry has what can be written and what is audited, secrets only as they are masked', () => {
  assert.deepEqual(factsOf(fields)(row, 'UTC', { api_key: 'set', name: null }), {
    name: null,
    shape: 'square',
    size: null,
    version: '3',
    is_open: '1',
    is_old: false,
    tags: ['a'],
    more: {},
    api_key: 'set',
    ends: '2026-07-01T10:00:00+0000',
  });
});

test('the compiler demands what a row does not have, and refuses what requests cannot write', () => {
  // @ts-expect-error: the state is missing.
  assert.equal(propertiesOf(fields)(row, 'UTC', { api_key: null }).at(-2)?.value, undefined);
  // @ts-expect-error: no body has an end.
  assert.deepEqual(parserOf(fields)({ ends: '2026-07-01' }), {});
  // @ts-expect-error: the key is not masked.
  assert.deepEqual(factsOf(fields)(row, 'UTC', {})['api_key'], row.apiKey);
  // @ts-expect-error: the choices of the version depend on the configuration.
  assert.deepEqual(schemasOf(fields, {}).part.required, undefined);
});

test('lists compare by the kind, unless the table says otherwise', () => {
  const compared = { id: 'number', name: 'text', is_open: 'boolean', ends: 'date', tags: 'none', api_key: 'none' };
  assert.deepEqual({ ...comparisonsOf(fields), ...compared, state: 'none' }, comparisonsOf(fields));
});

test('the SQL names the columns of a table, and is prepared', async () => {
  const statements: { text: string; values: unknown[]; isPrepared: boolean }[] = [];
  const sql = createTag(async (command) => {
    const { text, values, name } = command();
    statements.push({ text, values, isPrepared: name !== undefined });
    return Object.assign([], { count: 0 });
  });
  const columns = columnsOf(fields, 't');
  const { name, ends, ...others } = columns.compared(sql, { ends: sql`t.x`, is_new: sql`t.y` });
  await sql`select ${columns.selected(sql, { is_new: sql`a > ${1}` })}`;
  await sql`insert (${columns.names(sql)}) values (${columns.parameters(sql, settings)})`;
  await sql`update ${columns.assigned(sql, settings)}`;
  await sql`${name ?? ends ?? ''} ${ends ?? ''}`;
  const written = ['seven', 'square', null, '3', 'true'];
  assert.deepEqual(statements, [
    {
      text: 'select t.id, t.name, t.shape, t.size, t.version, t.is_open as "isOpen", t.is_old as "isOld", t.tags, t.more, t.api_key as "apiKey", t.ends_at as "endsAt", a > $1 as "isNew", t.date_created as "dateCreated"',
      values: ['1'],
      isPrepared: true,
    },
    {
      text: 'insert (name, shape, size, version, is_open, is_old, tags, more) values ($1, $2, $3, $4, $5::boolean, $6::boolean, $7::text[], $8::jsonb)',
      values: [...written, 'false', '{"a"}', '{}'],
      isPrepared: true,
    },
    {
      text: 'update name = $1, shape = $2, size = $3, version = $4, is_open = $5::boolean, tags = $6::text[], more = $7::jsonb',
      values: [...written, '{"a"}', '{}'],
      isPrepared: true,
    },
    { text: 't.name t.x', values: [], isPrepared: true },
  ]);
  const compared = Object.keys(others).toSorted().join();
  assert.equal(compared, 'date_created,id,is_new,is_old,is_open,shape,size,version');
});
