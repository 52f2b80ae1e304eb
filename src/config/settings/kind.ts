/** The kinds of settings: each with its allowed values, its default and its parser. */
import {
  contactUri,
  databaseUrl,
  flag,
  forwardProxy,
  integer,
  integerOrAuto,
  key,
  list,
  networks,
  oneOf,
  publicAddress,
  smtpUrl,
  text,
  token,
  type Env,
  type ForwardProxy,
} from '../env.ts';
import { shardDatabases, type ShardRange } from '../shard-databases.ts';
import { readOpenIdProviders, type OpenIdProvider } from '../openid-providers.ts';

export type Setting<Value> = {
  /** The default, in Markdown; `–`: none. */
  readonly defaultText: string;
  /** The allowed values, in Markdown. */
  readonly allowed: string;
  /** One or two sentences in Markdown, with links relative to docs/operating.md. */
  readonly meaning: string;
  /** Returns the value; throws a `ConfigError` that says what to change. */
  readonly read: (env: Env, name: string) => Value;
};

export const NONE = '–';
const code = (value: string | number): string => `\`${value}\``;
/** Formats a limit with commas from 10,000 on; defaults have none, because operators copy them. */
const grouped = (value: number): string => (value < 10_000 ? String(value) : value.toLocaleString('en-US'));

/** An integer; its unit is in the name of the setting. */
export function whole(defaultValue: number, [min, max]: readonly [min: number, max: number], meaning: string) {
  return {
    defaultText: code(defaultValue),
    allowed: `${grouped(min)}–${grouped(max)}`,
    meaning,
    read: (env: Env, name: string): number => integer(env, name, defaultValue, min, max),
  };
}

/** `undefined` if it is `auto`: the value then depends on the machine. */
export function wholeOrAuto([min, max]: readonly [min: number, max: number], meaning: string) {
  return {
    defaultText: code('auto'),
    allowed: `\`auto\`, ${grouped(min)}–${grouped(max)}`,
    meaning,
    read: (env: Env, name: string): number | undefined => integerOrAuto(env, name, min, max),
  };
}

export function onOff(meaning: string): Setting<boolean> {
  return {
    defaultText: 'off',
    allowed: '`1` or `0`',
    meaning,
    read: flag,
  };
}

/** A name that existing clients expect. */
export function word(defaultValue: string, meaning: string): Setting<string> {
  return {
    defaultText: code(defaultValue),
    allowed: 'letters, digits, hyphens',
    meaning,
    read: (env, name) => token(env, name, defaultValue),
  };
}

export function words(meaning: string): Setting<string[]> {
  return {
    defaultText: NONE,
    allowed: 'words, separated by commas',
    meaning,
    read: list,
  };
}

export function anyText(defaultValue: string, allowed: string, meaning: string): Setting<string> {
  return {
    defaultText: code(defaultValue),
    allowed,
    meaning,
    read: (env, name) => text(env, name) ?? defaultValue,
  };
}

/** `undefined` if it is not set: the default then depends on other settings, or there is none. */
type Optional<Value> = Setting<Value | undefined>;

/** A text, validated by the code that uses it. */
export function unvalidatedText(defaultText: string, allowed: string, meaning: string): Optional<string> {
  return {
    defaultText,
    allowed,
    meaning,
    read: text,
  };
}

export function choice(defaultText: string, choices: readonly string[], meaning: string): Optional<string> {
  return {
    defaultText,
    allowed: choices.map(code).join(', '),
    meaning,
    read: (env, name) => oneOf(env, name, choices),
  };
}

export function address(defaultText: string, meaning: string): Optional<string> {
  return {
    defaultText,
    allowed: 'a URL',
    meaning,
    read: publicAddress,
  };
}

export function database(defaultText: string, meaning: string): Optional<string> {
  return {
    defaultText,
    allowed: '`postgres://…`',
    meaning,
    read: databaseUrl,
  };
}

export function databasesOfShards(meaning: string): Optional<readonly ShardRange[]> {
  return {
    defaultText: NONE,
    allowed: '`<first>-<last>=postgres://…`, separated by spaces',
    meaning,
    read: shardDatabases,
  };
}

export function secretKey(defaultText: string, meaning: string): Optional<Buffer> {
  return {
    defaultText,
    allowed: '32 bytes: hex or base64',
    meaning,
    read: key,
  };
}

export function mailUrl(meaning: string): Optional<string> {
  return {
    defaultText: NONE,
    allowed: '`smtps://…`, `smtp://…`',
    meaning,
    read: smtpUrl,
  };
}

export function proxyUrl(meaning: string): Optional<ForwardProxy> {
  return {
    defaultText: NONE,
    allowed: '`http://…`',
    meaning,
    read: forwardProxy,
  };
}

export function mailAddress(meaning: string): Optional<string> {
  return unvalidatedText(NONE, 'an e-mail address', meaning);
}

export function contact(meaning: string): Optional<string> {
  return { defaultText: NONE, allowed: '`mailto:…`, `https://…`', meaning, read: contactUri };
}

export function openIdProviders(meaning: string): Setting<readonly OpenIdProvider[]> {
  return {
    defaultText: NONE,
    allowed: 'a JSON array',
    meaning,
    read: readOpenIdProviders,
  };
}

export function networkList(defaultText: string, meaning: string): Setting<string[]> {
  return {
    defaultText,
    allowed: 'CIDRs, separated by commas',
    meaning,
    read: networks,
  };
}
