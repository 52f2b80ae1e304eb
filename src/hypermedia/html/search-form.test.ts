import assert from 'node:assert/strict';
import { test } from 'node:test';
import { count, number, type Document, type Search } from '../document.ts';
import { html, render } from '../markup.ts';
import { searchPart } from './search-form.ts';

const naming = { baseUrl: 'https://api.example.com', relationPrefix: 'svc' };
const search: Search = {
  fields: [
    { name: 'status', kind: 'enumeration', choices: ['pending', 'failed'] },
    { name: 'resource_id', kind: 'text' },
    { name: 'is_active', kind: 'boolean' },
    { name: 'date_created:greaterthan', kind: 'date' },
  ],
  timeZone: 'Europe/Berlin',
};

function pageOf(query: string, rest: Partial<Document> = { search }): string {
  const document: Document = {
    name: 'things',
    links: [{ rel: 'self', href: `https://api.example.com/things${query}` }],
    embedded: [{ rel: 'things', documents: [] }],
    properties: [count('total_items', 0), number('offset', 0)],
    ...rest,
  };
  return render(html`${searchPart(document, naming)}`)
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/ >/g, '>');
}

const inForce = (page: string): [string, string][] =>
  [...page.matchAll(/<a href="([^"]*)">([^<]*)</g)].map(([, href = '', words = '']) => [words.trim(), href]);

test('an unused search is folded, and contains the time zone of its dates', () => {
  const page = pageOf('');
  assert.match(
    page,
    /<details class="search"> <summary>Search<\/summary> <form method="get" action="\/things" role="search">/,
  );
  assert.match(page, /name="_search" value="1"/);
  assert.match(
    page,
    /<label for="search-3">Date created after \(Europe\/Berlin\)<\/label> <input type="datetime-local"[^>]* value="" \/>/,
  );
  assert.deepEqual(inForce(page), []);
});

test('a used search is open with its values, dates in the time zone of the store', () => {
  const page = pageOf(
    '?status=failed&is_active=true&date_created:greaterthan=2026-07-01T10%3A00%3A00%2B0000&limit=50&offset=50',
  );
  assert.match(page, /<details class="search" open>/);
  assert.match(page, /<option value="failed" selected>Failed</);
  assert.match(page, /<option value="1" selected>Yes</);
  assert.match(page, /value="2026-07-01T12:00"/);
  assert.match(page, /type="hidden" name="limit" value="50"/);
  assert.doesNotMatch(page, /name="offset"/);
});

test('the filters in use are listed in words, and each can be removed', () => {
  assert.deepEqual(inForce(pageOf('?status:not=failed&resource_id=&size:lessthan=5&limit=5&offset=5')), [
    ['Status not: Failed', '/things?resource_id=&amp;size%3Alessthan=5&amp;limit=5'],
    ['Resource ID: not set', '/things?status%3Anot=failed&amp;size%3Alessthan=5&amp;limit=5'],
    ['Size below: 5', '/things?status%3Anot=failed&amp;resource_id=&amp;limit=5'],
  ]);
  const texts = inForce(pageOf('?/_embedded/svc:items/0/code:in=a,b&size:lessthanorequal=5&name:isnull=0&name=x')).map(
    ([text]) => text,
  );
  assert.deepEqual(texts, [
    '/_embedded/svc:items/0/code one of: a,b',
    'Size at most: 5',
    'Name not set: No',
    'Name: X',
  ]);
  assert.match(pageOf('?date_created:greaterthanorequal=2026-07-01T10%3A00%3A00%2B0200'), /Date created from <time /);
  assert.match(
    pageOf('?date_created:lessthan=2026-07-01T10%3A00%3A00%2B0200'),
    /before <time [^>]*>[^<]*10:00 UTC\+2</,
  );
});

test('the form keeps parameters that were typed into the URL, whether it has a field for them or not', () => {
  const page = pageOf('?status=*led&name=x');
  assert.match(page, /<option value="\*led" selected>\*led</);
  assert.match(page, /type="hidden" name="name" value="x"/);
});

test('a collection without a search form lists its filters as well', () => {
  const page = pageOf('?status=failed', {});
  assert.doesNotMatch(page, /<form/);
  assert.deepEqual(inForce(page), [['Status: Failed', '/things']]);
});
