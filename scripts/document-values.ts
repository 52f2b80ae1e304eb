/** Writes the values of the default settings into docs/*.md: `node scripts/document-values.ts`. */
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readConfig } from '#config/config.ts';
import { withValues } from '#reference/documents.ts';
import { settingOf } from '../src/server/compose-reference.ts';

const FOLDER = join(import.meta.dirname, '../docs');

/** Returns the documents that show values, as they are and as they have to be. */
export function documentsWithValues(): { path: string; text: string; due: string }[] {
  const setting = settingOf(readConfig({}, '/'), { npm: undefined, python: undefined });
  return globSync('*.md', { cwd: FOLDER }).map((name) => {
    const path = join(FOLDER, name);
    const text = readFileSync(path, 'utf8');
    return { path, text, due: withValues(text, setting) };
  });
}

if (import.meta.main) for (const { path, due } of documentsWithValues()) writeFileSync(path, due);
