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
export const whole = (standard: number, [min, max]: readonly [min: number, max: number], meaning: string) => ({
  standard: code(standard),
  allowed: `${grouped(min)}–${grouped(max)}`,
  meaning,
  read: (env: Env, name: string): number => integer(env, name, standard, min, max),
});

export const onOff = (meaning: string): Setting<boolean> => ({
  standard: 'off',
  allowed: '`1` or `0`',
  meaning,
  read: flag,
});

/** A name that existing clients expect. */
export const word = (standard: string, meaning: string): Setting<string> => ({
  standard: code(standard),
  allowed: 'letters, digits, hyphens',
  meaning,
  read: (env, name) => token(env, name, standard),
});

export const words = (meaning: string): Setting<string[]> => ({
  standard: NONE,
  allowed: 'words, separated by commas',
  meaning,
  read: list,
});

export const anyText = (standard: string, allowed: string, meaning: string): Setting<string> => ({
  standard: code(standard),
  allowed,
  meaning,
  read: (env, name) => text(env, name) ?? standard,
});

/** `undefined` if it is not set: the default then depends on other settings, or there is none. */
type Optional<Value> = Setting<Value | undefined>;

/** A text, validated by the code that uses it. */
export const said = (standard: string, allowed: string, meaning: string): Optional<string> => ({
  standard,
  allowed,
  meaning,
  read: text,
});

export const choice = (standard: string, choices: readonly string[], meaning: string): Optional<string> => ({
  standard,
  allowed: choices.map(code).join(', '),
  meaning,
  read: (env, name) => oneOf(env, name, choices),
});

export const address = (standard: string, meaning: string): Optional<string> => ({
  standard,
  allowed: 'a URL',
  meaning,
  read: (env, name) => (text(env, name) === undefined ? undefined : origin(env, name, '')),
});

export const database = (standard: string, meaning: string): Optional<string> => ({
  standard,
  allowed: '`postgres://…`',
  meaning,
  read: databaseUrl,
});

export const secretKey = (standard: string, meaning: string): Optional<Buffer> => ({
  standard,
  allowed: '32 bytes: hex or base64',
  meaning,
  read: key,
});

export const mailUrl = (meaning: string): Optional<string> => ({
  standard: NONE,
  allowed: '`smtps://…`, `smtp://…`',
  meaning,
  read: smtpUrl,
});

export const mailAddress = (meaning: string): Optional<string> => said(NONE, 'an e-mail address', meaning);

export const networkList = (standard: string, meaning: string): Setting<string[]> => ({
  standard,
  allowed: 'CIDRs, separated by commas',
  meaning,
  read: networks,
});
