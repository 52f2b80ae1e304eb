import assert from 'node:assert/strict';
import { test } from 'node:test';
import { code, date, number, text, type Document } from '../document.ts';
import { renderHtml } from './document-page.ts';

const naming = { baseUrl: 'http://localhost', relationPrefix: 'svc' };
const SENTENCE = 'It was not taken, because the shelf was full for most of that day: empty it, and have it sent again.';
const WHEN = '2026-07-01T10:00:07+0000';

const step = (n: number): Document => ({
  name: 'step',
  links: [
    { rel: 'order', href: 'http://localhost/orders/7', title: 'The order' },
    { rel: 'note', href: `http://localhost/notes/${n}`, title: `Note ${n}` },
  ],
  embedded: [],
  properties: [
    text('id', `7-${n}`),
    text('resource', 'order 7'),
    text('reason', SENTENCE),
    text.orNull('comment', null),
    text('outcome', 'refused'),
    { ...number('duration', 12), unit: 'ms' },
    number('step', n),
    date('date_created', WHEN),
    code('answer', `<b>line ${n}</b>\n\n`),
  ],
});
const order: Document = {
  name: 'order',
  links: [{ rel: 'customer', href: 'http://localhost/orders/7', title: 'Myself' }],
  properties: [text('resource', 'order 7'), text('reason', SENTENCE), date('date_created', WHEN)],
  embedded: [{ rel: 'steps', title: 'What was done', documents: [step(1), step(2)], isTimeline: true }],
};

const timelineOf = (document: Document): string => renderHtml(document, naming).split('<ol class="timeline">')[1] ?? '';
const words = (page: string): string => page.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ');

test('each entry shows, in order: outcome and time in one line, the sentence, and the folded response', () => {
  const page = renderHtml(order, naming);
  assert.match(page, /<h2>What was done<\/h2>\s*<ol class="timeline">/);
  const [, first = '', second = ''] = timelineOf(order).split('<li>');
  assert.match(words(first), /^ Refused [^:]*10:00:07 UTC 12 ms Step 1 It was .* Answer /);
  assert.match(words(second), /Step 2 /);
  assert.ok(first.includes('<pre class="copyable">\n&lt;b&gt;line 1&lt;/b&gt;\n\n</pre>'), 'to be copied as it is');
});

test('values common to all entries, unset values and links shown elsewhere are not repeated', () => {
  const steps = timelineOf(order);
  for (const absent of ['order 7', '7-1', 'Comment', 'The order']) assert.ok(!words(steps).includes(absent), absent);
  assert.ok(steps.includes('href="/notes/2"'));
  assert.ok(
    renderHtml({ ...order, embedded: [{ rel: 'steps', documents: [], isTimeline: true }] }, naming).includes('None'),
  );
});
