/** The handbook's table of settings is what operators set them by: here it is held against what is read. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readConfig } from '#config.ts';
import type { Env } from '#env.ts';

const EMBEDDED: Env = {};
const WITH_DATABASE: Env = { DATABASE_URL: 'postgres://localhost/halcyon', HALCYON_SECRET_KEY: '0'.repeat(64) };
const WITH_MAIL: Env = { SMTP_URL: 'smtp://localhost', MAIL_FROM: 'halcyon@example.com' };
/** Such a setting has no value of its own that could be wrong. */
const NO_DEFAULT = new Set(['–', '–, demo: loopback', 'generated with the embedded database']);

const ticked = (cell: string): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text);

const handbook = await readFile(join(import.meta.dirname, '../docs/operating.md'), 'utf8');
const [, table = ''] = /^## Settings$(.+?)^## /ms.exec(handbook) ?? [];
const rows = [...table.matchAll(/^\| (`.+?) \| (.+?) \|/gm)].map(([, names = '', fallback = '']) => ({
  names: ticked(names),
  fallback,
}));

/** The worker's id is drawn anew for each process. */
const read = (env: Env) => {
  const config = readConfig(env, '/');
  return { ...config, delivery: { ...config.delivery, workerId: 0 } };
};

const namesReadFrom = (env: Env): string[] => {
  const names: string[] = [];
  const listening = new Proxy(env, { get: (target, name: string) => (names.push(name), target[name]) });
  readConfig(listening, '/');
  return names;
};

test('the handbook has every setting that is read, once, and no other', () => {
  const told = rows.flatMap(({ names }) => names);
  const isRead = new Set([EMBEDDED, WITH_DATABASE, WITH_MAIL].flatMap(namesReadFrom));
  // Node reads it by itself.
  isRead.add('NODE_EXTRA_CA_CERTS');
  assert.deepEqual(told.toSorted(), [...isRead].toSorted());
});

/** What the table says that each has by itself, and where; what is `as` another is what that one has. */
const defaults = rows.flatMap(({ names, fallback }): [env: Env, name: string, value: string][] => {
  const [name = ''] = names;
  const [first = '', second = ''] = ticked(fallback);
  if (fallback === 'off') return [[EMBEDDED, name, 'false']];
  if (fallback === 'as `BASE_URL`') return [[EMBEDDED, name, read(EMBEDDED).baseUrl]];
  if (fallback === 'as `DATABASE_URL`') return [];
  if (fallback.includes(', embedded: ')) {
    return [
      [WITH_DATABASE, name, first],
      [EMBEDDED, name, second],
    ];
  }
  const values = ticked(fallback).map((value) => value.replace('PORT', String(read(EMBEDDED).port)));
  assert.equal(values.length, NO_DEFAULT.has(fallback) ? 0 : names.length, `${name}: ${fallback}`);
  return values.map((value, index) => [EMBEDDED, names[index] ?? '', value]);
});

for (const [env, name, value] of defaults) {
  test(`${name} is ${value} where it is not set${env === EMBEDDED ? '' : ', with a database'}`, () =>
    assert.deepEqual(read({ ...env, [name]: value }), read(env)));
}
