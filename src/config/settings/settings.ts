/**
 * All settings, each described once: config.ts reads those of a server, commands read their own, and
 * scripts/settings-table.ts generates the tables of docs/operating.md.
 */
import type { Env } from '../env.ts';
import { ADDRESSES } from './addresses.ts';
import { KEEPING } from './database.ts';
import { PEOPLE } from './people.ts';
import { API } from './api.ts';
import { COMMANDS } from './commands.ts';
import { DELIVERY } from './deliveries.ts';
import { LOG } from './log.ts';
import type { Setting } from './kind.ts';

const SETTINGS = { ...ADDRESSES, ...KEEPING, ...PEOPLE, ...API, ...DELIVERY, ...LOG };

/** Groups in the order of the tables. */
export const SETTING_GROUPS: readonly (readonly [
  title: string,
  settings: Readonly<Record<string, Setting<unknown>>>,
])[] = [
  ['Addresses', ADDRESSES],
  ['Database and secrets', KEEPING],
  ['People and mail', PEOPLE],
  ['The API', API],
  ['Deliveries', DELIVERY],
  ['The log', LOG],
  ['Commands that ask a server', COMMANDS],
];

export type Settings = { readonly [Name in keyof typeof SETTINGS]: ReturnType<(typeof SETTINGS)[Name]['read']> };

/** Reads each setting by itself; config.ts combines them. Throws a `ConfigError` for the first invalid one. */
export const readSettings = (env: Env): Settings =>
  Object.fromEntries(Object.entries(SETTINGS).map(([name, { read }]) => [name, read(env, name)])) as Settings;
