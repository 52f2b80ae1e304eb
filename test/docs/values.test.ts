/** The documents show the values of the default settings. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { documentsWithValues } from '../../scripts/document-values.ts';

test('the documents have the values of the default settings (node scripts/document-values.ts writes them)', () => {
  const documents = documentsWithValues();
  assert.ok(documents.some(({ text }) => text.includes('<!-- end of retries -->')));
  for (const { path, text, due } of documents) assert.equal(text, due, path);
});
