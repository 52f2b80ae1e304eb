/**
 * Every setting there is, described once: config.ts reads those of a server, commands their own, and the tables in docs/operating.md are made of them
 * (scripts/settings-table.ts).
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

/** As an operator looks for them: by what they are about. */
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

/** Each by itself; what one means beside another, config.ts says. Throws a `ConfigError` for the first that cannot be used. */
export const readSettings = (env: Env): Settings =>
  Object.fromEntries(Object.entries(SETTINGS).map(([name, { read }]) => [name, read(env, name)])) as Settings;
