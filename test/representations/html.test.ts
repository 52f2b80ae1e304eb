/** Pages are HTML as the standard wants it, by somebody else's validator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HtmlValidate } from 'html-validate';
import { pages } from '../setup/pages.ts';

const validator = new HtmlValidate({
  extends: ['html-validate:recommended'],
  rules: {
    // How the source is written, which no browser sees: the formatter of our templates writes `<!doctype` small and closes
    // void elements by themselves, and where a part of a template is left out its line stays, empty.
    'doctype-style': 'off',
    'void-style': 'off',
    'no-trailing-whitespace': 'off',
  },
});

for (const [name, page] of pages) {
  test(`the validator finds nothing: ${name}`, async () => {
    const { results } = await validator.validateString(page);
    const found = results.flatMap(({ messages }) =>
      messages.map(({ ruleId, message, line }) => `${line} ${ruleId}: ${message}`),
    );
    assert.deepEqual(found, []);
  });
}

test('the validator would find something', async () => {
  const { valid } = await validator.validateString('<p id="a"><p id="a"><img>');
  assert.equal(valid, false);
});
