import assert from 'node:assert/strict';
import { test } from 'node:test';
import { text } from '#hypermedia/document.ts';
import { naming, webhook } from '../../test/setup/documents.ts';
import { owner } from '../../test/setup/pages.ts';
import { webhookPage } from './webhook-page.ts';

test('a property without a place of its own is among the settings', () => {
  const document = webhook(0);
  const page = (properties: typeof document.properties) =>
    webhookPage({ document: { ...document, properties }, naming, view: owner, now: new Date(0) }) ?? '';
  assert.doesNotMatch(page(document.properties), /Colour/);
  assert.match(page([...document.properties, text('colour', 'blue')]), /<dt>Colour<\/dt>\s*<dd>blue<\/dd>/);
});
