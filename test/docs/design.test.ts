/** src/hypermedia/README.md: its contrasts are those of the style sheet, and all of them are high enough. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { PAPERS } from '#config/brand.ts';
import { style } from '#hypermedia/style.ts';
import { colorsOf, contrastsOf, DESIGN_PAGE, withContrasts } from '../../scripts/contrast-table.ts';

test('the page has the contrasts of the style sheet (node scripts/contrast-table.ts writes them)', async () => {
  const page = await readFile(DESIGN_PAGE, 'utf8');
  assert.equal(page, withContrasts(page));
});

test('every colour has enough contrast with what it is on, in light and dark mode', () => {
  const pairs = contrastsOf(style);
  assert.ok(pairs.length > 10);
  for (const { upper, lower, least, light, dark } of pairs) {
    assert.ok(light >= least, `${upper} on ${lower}, light: ${light}`);
    assert.ok(dark >= least, `${upper} on ${lower}, dark: ${dark}`);
  }
});

test('every colour of text and paper is in the table', () => {
  const { light, dark } = colorsOf(style);
  const named = new Set(contrastsOf(style).flatMap(({ upper, lower }) => [upper, lower]));
  // Lines between rows carry no meaning, so they need no contrast.
  const roles = Object.keys(light).filter((role) => role !== 'line');
  assert.deepEqual(roles.toSorted(), [...named].toSorted());
  assert.deepEqual(Object.keys(dark).toSorted(), Object.keys(light).toSorted());
});

test("the operator's colour is compared with the paper of the style sheet", () => {
  const { light, dark } = colorsOf(style);
  assert.deepEqual([light['card'], light['paper']], PAPERS.light);
  assert.deepEqual([dark['card'], dark['paper']], PAPERS.dark);
  assert.equal(light['on-accent'], '#ffffff', 'white text on buttons');
});
