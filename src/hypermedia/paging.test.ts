import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Fault } from '#core/problem.ts';
import { collection, neighbours, readPage } from './paging.ts';

const page = fc.record({ offset: fc.nat(1_000), limit: fc.integer({ min: 1, max: 300 }) });

test('from every page, next leads to the end and prev to the beginning', () => {
  fc.assert(
    fc.property(page, fc.nat(2_000), ({ offset, limit }, total) => {
      const walk = (direction: 'prev' | 'next') => {
        let at = offset;
        for (let step = 0; step < 3_000; step += 1) {
          const to = neighbours({ offset: at, limit }, total)[direction];
          if (to === at) return at;
          at = to;
        }
        return -1;
      };
      assert.equal(walk('prev'), 0);
      assert.ok(walk('next') + limit >= Math.min(total, offset + limit));
    }),
  );
});

test('last is the offset of the last page', () => {
  const last = (total: number, limit: number) => neighbours({ offset: 0, limit }, total).last;
  assert.deepEqual([last(0, 20), last(1, 20), last(20, 20), last(21, 20), last(100, 33)], [0, 0, 0, 20, 99]);
});

test('past the end, prev is the last page', () => {
  assert.equal(neighbours({ offset: 500, limit: 20 }, 45).prev, 40);
});

function read(query: string) {
  const faults: Fault[] = [];
  return { page: readPage(new URLSearchParams(query), faults), fields: faults.map(({ field }) => field) };
}

test('limits are from 1 to 300, offsets from 0; both faults are reported', () => {
  assert.deepEqual(read(''), { page: { offset: 0, limit: 20 }, fields: [] });
  assert.deepEqual(read('limit=300&offset=7'), { page: { offset: 7, limit: 300 }, fields: [] });
  for (const query of ['limit=0', 'limit=301', 'limit=x', 'offset=-1', 'offset=1.5', 'limit=1&limit=2']) {
    assert.deepEqual(read(query).fields, [query.split('=')[0]], query);
  }
  assert.deepEqual(read('limit=0&offset=x').fields, ['offset', 'limit']);
});

test('an offset beyond the limit is refused with the limit', () => {
  const faults: Fault[] = [];
  readPage(new URLSearchParams('offset=1000000000000000'), faults);
  assert.deepEqual(
    faults.map(({ field }) => field),
    ['offset'],
  );
  assert.match(faults[0]?.message ?? '', / 999999999999999$/);
  assert.equal(read('offset=999999999999999').page.offset, 10 ** 15 - 1);
});

test('first, prev, next and last name their offset and keep the other parameters', () => {
  const limits = fc.option(fc.integer({ min: 1, max: 300 }), { nil: undefined });
  fc.assert(
    fc.property(fc.option(fc.nat(400), { nil: undefined }), limits, fc.nat(400), (offset, limit, total) => {
      const query = new URLSearchParams({ name: 'a?b&offset=7' });
      if (limit !== undefined) query.set('limit', String(limit));
      if (offset !== undefined) query.set('offset', String(offset));
      const asked = readPage(query, []);
      const { links } = collection({
        name: 's',
        rel: 's',
        title: 'S',
        path: '/s',
        query,
        page: asked,
        total,
        items: [],
      });
      const leadsTo = (rel: string) =>
        new URL(links.find((link) => link.rel === rel)?.href ?? '', 'http://x').searchParams;
      for (const [rel, expected] of Object.entries(neighbours(asked, total))) {
        const parameters = leadsTo(rel);
        assert.deepEqual(parameters.getAll('offset'), [String(expected)], rel);
        assert.deepEqual([parameters.get('name'), parameters.get('limit')], [query.get('name'), query.get('limit')]);
      }
    }),
  );
});
