import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Action, Document } from '#hypermedia/document.ts';
import { refreshOf } from '../resource.ts';

const waiting: Document = { name: 'thing', links: [], embedded: [], properties: [], refreshSeconds: 3 };
const at = (document: Document, query = '') => refreshOf(document, '/things/1', new URLSearchParams(query));

test('a page that waits reloads itself, and does not repeat its message', () => {
  assert.deepEqual(at(waiting, 'done=begun&a=1'), {
    header: '3; url=/things/1?a=1',
    refresh: { seconds: 3, isStopped: false, href: '/things/1?a=1&refresh=0' },
  });
  assert.equal(at(waiting)?.header, '3; url=/things/1');
});

test('the reload can be stopped and resumed', () => {
  assert.deepEqual(at(waiting, 'refresh=0'), {
    header: undefined,
    refresh: { seconds: 3, isStopped: true, href: '/things/1' },
  });
});

test('a page that waits for nothing, or that may contain typed text, does not reload', () => {
  const { refreshSeconds: _, ...still } = waiting;
  assert.equal(at(still), undefined);
  const action: Action = { name: 'cancel', title: 'Cancel', method: 'POST', href: '', fields: [] };
  const field = { name: 'x', kind: 'text', isRequired: false, isMultiple: false } as const;
  assert.notEqual(at({ ...waiting, actions: [action] }), undefined);
  assert.equal(at({ ...waiting, actions: [action, { ...action, fields: [field] }] }), undefined);
});
