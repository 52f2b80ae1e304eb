/** Pages are valid HTML according to an independent validator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HtmlValidate } from 'html-validate';
import { pages } from '../setup/pages.ts';

const validator = new HtmlValidate({
  extends: ['html-validate:recommended'],
  rules: {
    // Source style that no browser sees: the formatter of the templates writes `<!doctype` in lower case and closes
    // void elements, and an omitted part of a template leaves an empty line.
    'doctype-style': 'off',
    'void-style': 'off',
    'no-trailing-whitespace': 'off',
  },
});

for (const [name, page] of pages) {
  test(`the validator accepts ${name}`, async () => {
    const { results } = await validator.validateString(page);
    const found = results.flatMap(({ messages }) =>
      messages.map(({ ruleId, message, line }) => `${line} ${ruleId}: ${message}`),
    );
    assert.deepEqual(found, []);
  });
}

test('the validator detects an error', async () => {
  const { valid } = await validator.validateString('<p id="a"><p id="a"><img>');
  assert.equal(valid, false);
});
