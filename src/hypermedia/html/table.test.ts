import assert from 'node:assert/strict';
import { test } from 'node:test';
import { boolean, code, date, enumeration, json, number, secret, text, url, type Property } from '../document.ts';
import { columnsOf } from './table.ts';

const namesOf = (...rows: Property[][]): string[] =>
  columnsOf(rows.map((properties) => ({ name: 'thing', links: [], embedded: [], properties }))).map(({ name }) => name);

test('the name comes first, then the state, then the values that distinguish rows: at most six', () => {
  const webhook = (n: number) => [
    number('id', n),
    text('name', `Webhook ${n}`),
    enumeration('format', n === 1 ? 'json' : 'partner_automation'),
    text('version', '2'),
    url('url', `https://example.com/${n}`),
    enumeration('event_resource', n === 1 ? 'transaction' : 'customer'),
    boolean('is_active', '1'),
    number.orNull('rate_per_second', null),
    enumeration('state', 'ok'),
    date('date_created', `2026-11-0${n}T10:00:00+0000`),
    date('date_modified', `2026-11-0${n}T11:00:00+0000`),
  ];
  const columns = ['name', 'state', 'format', 'url', 'event_resource', 'date_created'];
  assert.deepEqual(namesOf(webhook(1), webhook(2)), columns);
});

test('values about related resources give way to those of the row itself', () => {
  const attempt = (n: number) => [
    text('id', `7-${n}`),
    text('resource_type', n === 1 ? 'transaction' : 'customer'),
    text('resource_id', `order-${n}`),
    number('webhook_id', n),
    text('event', `transaction/${n}`),
    number('attempt', n),
    number('response_code', 500),
    number('duration', 10 * n),
    text('outcome', 'refused'),
    date('date_created', `2026-11-0${n}T10:00:00+0000`),
  ];
  const columns = ['id', 'outcome', 'response_code', 'resource_id', 'event', 'attempt', 'date_created'];
  assert.deepEqual(namesOf(attempt(1), attempt(2)), columns);
});

test('secrets, code, structures and unset properties are no columns', () => {
  const row = [
    secret('key', 'x'),
    code('body', 'x'),
    json('events', ['x']),
    text.orNull('note', null),
    json('color', 'red'),
  ];
  assert.deepEqual(namesOf(row), ['color']);
});

test('a value that only later rows have is a column of its own kind', () => {
  const columns = columnsOf(
    [null, 5].map((value) => ({ name: 'thing', links: [], embedded: [], properties: [json.orNull('size', value)] })),
  );
  assert.deepEqual(
    columns.map(({ name, kind }) => [name, kind]),
    [['size', 'number']],
  );
});

test('the id of a related resource comes after all values of the row itself, even if there is space', () => {
  const recovery = [
    number('id', 7959),
    number('webhook_id', 6423),
    enumeration('state', 'finished'),
    date('since', '2026-11-01T10:00:00+0000'),
    number('events_total', 10),
    number('events_seen', 10),
    number('events_recovered', 3),
    date('date_created', '2026-11-02T10:00:00+0000'),
  ];
  const columns = ['id', 'state', 'since', 'events_total', 'events_seen', 'events_recovered', 'date_created'];
  assert.deepEqual(namesOf(recovery), columns);
  const few = namesOf(recovery.slice(0, 4));
  assert.deepEqual(few, ['id', 'state', 'since'], 'left out if others distinguish the rows');
  assert.deepEqual(namesOf(recovery.slice(0, 3)), ['id', 'state', 'webhook_id'], 'present if they do not');
});

test('the reason of a failure is a column even if it is the same in all rows', () => {
  const delivery = (id: number, ended: string | null) => [
    number('id', id),
    text('resource_id', `${id}`),
    text('event', `transaction/${id}`),
    enumeration('status', ended === null ? 'pending' : 'failed'),
    text('reason', 'Your endpoint answered 500'),
    number('attempts', 1),
    date('date_next', `2026-11-0${id}T10:00:00+0000`),
    date('date_created', `2026-11-0${id}T09:00:00+0000`),
    date.orNull('date_ended', ended),
  ];
  assert.ok(namesOf(delivery(1, null), delivery(2, '2026-11-02T10:00:00+0000')).includes('reason'));
});
