/** Pages are valid HTML according to an independent validator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { faultsIn } from '../setup/html-validator.ts';
import { pages } from '../setup/pages.ts';

for (const [name, page] of pages) {
  test(`the validator accepts ${name}`, async () => assert.deepEqual(await faultsIn(page), []));
}

test('the validator detects an error', async () => {
  assert.notDeepEqual(await faultsIn('<p id="a"><p id="a"><img>'), []);
});
