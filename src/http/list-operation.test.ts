import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assert as checkProperty, asyncProperty, boolean, date, option, record } from 'fast-check';
import { parseDate } from '#hypermedia/date.ts';
import type { Document } from '#hypermedia/document.ts';
import { RANGES, type Filter } from '#core/listing.ts';
import { Problem } from '#core/problem.ts';
import { errorDocument, TooWide } from './errors.ts';
import { listing, withNarrower } from './list-operation.ts';

const now = new Date('2026-11-24T12:00:00Z');
const HOUR_MS = 3_600_000;
const tooMuch = new Problem(400, { code: 'too_much_to_search', message: 'This takes longer' });
const fields = [{ name: 'date_created:greaterthan', kind: 'date' }] as const;

/** Returns the query of the offer for a search with this query; undefined if there is none. */
async function offerFor(text: string, timeZone = 'UTC'): Promise<URLSearchParams | undefined> {
  const query = new URLSearchParams(text);
  const filters = (['is', ...RANGES] as const).flatMap((operator): Filter[] => {
    const value = parseDate(query.get(operator === 'is' ? 'date_created' : `date_created:${operator}`) ?? '');
    return value === undefined ? [] : [{ property: 'date_created', operator, value }];
  });
  const request = { query, now, zone: async () => timeZone };
  const error = await withNarrower(tooMuch, request, { filters, property: 'date_created', fields });
  assert.ok(!(error instanceof TooWide) || error.narrower.form.timeZone === timeZone);
  return error instanceof TooWide ? error.narrower.query : undefined;
}

test('a search without dates is offered for the last week, from its first page on', async () => {
  const offer = await offerFor('event=transaction%2Fcreated&order=attempts&offset=40&limit=5');
  assert.deepEqual(Object.fromEntries(offer ?? []), {
    event: 'transaction/created',
    order: 'attempts',
    limit: '5',
    'date_created:greaterthan': '2026-11-17T12:00:00+0000',
  });
});

test('a search of a range of dates is offered for its newer half, until the range is an hour', async () => {
  const instants = date({ min: new Date('2020-01-01'), max: now, noInvalidDate: true });
  await checkProperty(
    asyncProperty(
      record({ from: instants, to: option(instants, { nil: undefined }), isFirst: boolean() }),
      async ({ from, to, isFirst }) => {
        const query = new URLSearchParams({
          [`date_created:${isFirst ? 'greaterthanorequal' : 'greaterthan'}`]: from.toISOString(),
        });
        const last = `date_created:lessthan${isFirst ? 'orequal' : ''}`;
        if (to !== undefined) query.set(last, to.toISOString());
        const end = to ?? now;
        let begin = from.getTime();
        for (let offer = await offerFor(query.toString()); offer; offer = await offerFor(offer.toString())) {
          const next = parseDate(offer.get('date_created:greaterthan') ?? '')?.getTime() ?? 0;
          assert.ok(next > begin && next < end.getTime());
          assert.equal(offer.get(last), query.get(last));
          begin = next;
        }
        assert.ok(end.getTime() - begin <= HOUR_MS);
      },
    ),
  );
});

test('the offer is in the time zone of the store', async () => {
  const offer = await offerFor('', 'Pacific/Auckland');
  assert.equal(offer?.get('date_created:greaterthan'), '2026-11-18T01:00:00+1300');
});

test('a search of one time and another error have no offer', async () => {
  for (const query of ['date_created=2026-11-20', 'date_created=2026-11-20T10:00:00Z&order=id'])
    assert.equal(await offerFor(query), undefined);
  const other = new Problem(429, { code: 'too_many_searches', message: 'Wait' });
  const request = { query: new URLSearchParams(), now, zone: async () => 'UTC' };
  assert.equal(await withNarrower(other, request, { filters: [], property: 'date_created', fields }), other);
});

test('the offer is a link at the address of the request', async () => {
  const request = { query: new URLSearchParams('status=failed'), now, zone: async () => 'UTC' };
  const error = await withNarrower(tooMuch, request, { filters: [], property: 'date_created', fields });
  assert.ok(error instanceof TooWide);
  const [link] = errorDocument(error, 'id-1', 'https://api.example.com/webhooks/1/statuses').links;
  assert.equal(link?.rel, 'related');
  const search = 'status=failed&date_created%3Agreaterthan=2026-11-17T12%3A00%3A00%2B0000';
  assert.equal(link.href, `https://api.example.com/webhooks/1/statuses?${search}`);
});

test('a page has a limit of text, as formats write it', async () => {
  const MIB = 1024 * 1024;
  const pageOf = async (texts: readonly string[], query = ''): Promise<number> => {
    const list = listing({
      summary: 'Logs',
      rel: 'logs',
      title: 'Logs',
      properties: { id: 'text', body: 'none' },
      handle: async () => ({
        path: 'http://localhost/logs',
        items: texts.map((body) => ({
          name: 'log',
          links: [],
          embedded: [],
          properties: [
            { name: 'id', kind: 'text', value: '1' },
            { name: 'body', kind: 'text', value: body },
          ],
        })),
        total: texts.length,
      }),
    });
    const request = { query: new URLSearchParams(query), params: {}, principal: {}, now };
    const { document } = (await list.handle(request as never, undefined as never)) as { document: Document };
    return document.embedded.flatMap(({ documents }) => documents).length;
  };
  const large = { status: 400, message: /too large for one page: use limit=2,/ };
  assert.equal(await pageOf(Array.from({ length: 8 }, () => 'x'.repeat(MIB - 1))), 8);
  await assert.rejects(pageOf(Array.from({ length: 3 }, () => 'x'.repeat(3.5 * MIB))), large);
  for (const escaped of ['<', '"', '\u0001'])
    await assert.rejects(pageOf(Array.from({ length: 3 }, () => escaped.repeat(0.6 * MIB))), large, escaped);
  assert.equal(
    await pageOf(
      Array.from({ length: 3 }, () => '<'.repeat(MIB)),
      'fields=id',
    ),
    3,
  );
  assert.equal(await pageOf(['<'.repeat(4 * MIB)]), 1);
});
