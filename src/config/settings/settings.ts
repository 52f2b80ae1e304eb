/**
 * All settings, each described once. config.ts reads those of a server and the commands read their own; scripts/settings-table.ts
 * generates the tables in docs/operating.md from them.
 */
import type { Env } from '../env.ts';
import { ADDRESSES } from './addresses.ts';
import { BRAND } from './brand.ts';
import { KEEPING } from './database.ts';
import { PEOPLE } from './people.ts';
import { API } from './api.ts';
import { COMMANDS } from './commands.ts';
import { DELIVERY } from './deliveries.ts';
import { LOG } from './log.ts';
import { PROCESSES } from './processes.ts';
import type { Setting } from './kind.ts';

const SETTINGS = { ...ADDRESSES, ...PROCESSES, ...KEEPING, ...PEOPLE, ...BRAND, ...API, ...DELIVERY, ...LOG };

/** By subject, in the order of docs/operating.md. */
export const SETTING_GROUPS: readonly (readonly [
  title: string,
  settings: Readonly<Record<string, Setting<unknown>>>,
])[] = [
  ['Addresses', ADDRESSES],
  ['Processes', PROCESSES],
  ['Database and secrets', KEEPING],
  ['People and mail', PEOPLE],
  ['Brand', BRAND],
  ['The API', API],
  ['Deliveries', DELIVERY],
  ['The log', LOG],
  ['Commands that use a server', COMMANDS],
];

export type Settings = { readonly [Name in keyof typeof SETTINGS]: ReturnType<(typeof SETTINGS)[Name]['read']> };

/** Reads each setting by itself; config.ts combines them. Throws a `ConfigError` for the first invalid one. */
export function readSettings(env: Env): Settings {
  return Object.fromEntries(Object.entries(SETTINGS).map(([name, { read }]) => [name, read(env, name)])) as Settings;
}
