/** The kinds of settings: each with its allowed values, its default and its parser. */
import {
  databaseUrl,
  flag,
  integer,
  key,
  list,
  networks,
  oneOf,
  origin,
  smtpUrl,
  text,
  token,
  type Env,
} from '../env.ts';

export type Setting<Value> = {
  /** The default, in Markdown; `–`: none. */
  readonly standard: string;
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
export function whole(standard: number, [min, max]: readonly [min: number, max: number], meaning: string) {
  return {
    standard: code(standard),
    allowed: `${grouped(min)}–${grouped(max)}`,
    meaning,
    read: (env: Env, name: string): number => integer(env, name, standard, min, max),
  };
}

export function onOff(meaning: string): Setting<boolean> {
  return {
    standard: 'off',
    allowed: '`1` or `0`',
    meaning,
    read: flag,
  };
}

/** A name that existing clients expect. */
export function word(standard: string, meaning: string): Setting<string> {
  return {
    standard: code(standard),
    allowed: 'letters, digits, hyphens',
    meaning,
    read: (env, name) => token(env, name, standard),
  };
}

export function words(meaning: string): Setting<string[]> {
  return {
    standard: NONE,
    allowed: 'words, separated by commas',
    meaning,
    read: list,
  };
}

export function anyText(standard: string, allowed: string, meaning: string): Setting<string> {
  return {
    standard: code(standard),
    allowed,
    meaning,
    read: (env, name) => text(env, name) ?? standard,
  };
}

/** `undefined` if it is not set: the default then depends on other settings, or there is none. */
type Optional<Value> = Setting<Value | undefined>;

/** A text, validated by the code that uses it. */
export function said(standard: string, allowed: string, meaning: string): Optional<string> {
  return {
    standard,
    allowed,
    meaning,
    read: text,
  };
}

export function choice(standard: string, choices: readonly string[], meaning: string): Optional<string> {
  return {
    standard,
    allowed: choices.map(code).join(', '),
    meaning,
    read: (env, name) => oneOf(env, name, choices),
  };
}

export function address(standard: string, meaning: string): Optional<string> {
  return {
    standard,
    allowed: 'a URL',
    meaning,
    read: (env, name) => (text(env, name) === undefined ? undefined : origin(env, name, '')),
  };
}

export function database(standard: string, meaning: string): Optional<string> {
  return {
    standard,
    allowed: '`postgres://…`',
    meaning,
    read: databaseUrl,
  };
}

export function secretKey(standard: string, meaning: string): Optional<Buffer> {
  return {
    standard,
    allowed: '32 bytes: hex or base64',
    meaning,
    read: key,
  };
}

export function mailUrl(meaning: string): Optional<string> {
  return {
    standard: NONE,
    allowed: '`smtps://…`, `smtp://…`',
    meaning,
    read: smtpUrl,
  };
}

export function mailAddress(meaning: string): Optional<string> {
  return said(NONE, 'an e-mail address', meaning);
}

export function networkList(standard: string, meaning: string): Setting<string[]> {
  return {
    standard,
    allowed: 'CIDRs, separated by commas',
    meaning,
    read: networks,
  };
}
