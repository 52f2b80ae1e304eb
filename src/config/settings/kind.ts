/** The kinds of settings: each with its allowed values, its default and its parser. */
import { ConfigError } from '#core/config-error.ts';
import {
  contactUri,
  databaseUrl,
  databaseUrlFault,
  flag,
  forwardProxy,
  integer,
  key,
  list,
  networks,
  oneOf,
  publicAddress,
  smtpUrl,
  text,
  token,
  withSecretFile,
  type Bounds,
  type Env,
} from '../env.ts';
import { brandColor, brandName } from '../brand.ts';
import { Type, type Static } from 'typebox';
import { Compile } from 'typebox/schema';

export type Setting<Value> = {
  /** The default, in Markdown; `–`: none. */
  readonly defaultText: string;
  /** The allowed values, in Markdown. */
  readonly allowed: string;
  /** One or two sentences in Markdown, with links relative to docs/operating.md. */
  readonly meaning: string;
  /** The value may also be in a file (`<name>_FILE`), and is never shown. */
  readonly isSecret?: true;
  /** Returns the value; throws a `ConfigError` that says what to change. */
  readonly read: (env: Env, name: string) => Value;
};

export const NONE = '–';
const code = (value: string | number): string => `\`${value}\``;
/** Formats a limit with commas from 10,000 on; defaults have none, because operators copy them. */
const grouped = (value: number): string => (value < 10_000 ? String(value) : value.toLocaleString('en-US'));

/** Returns a value; throws a `ConfigError` that says what to change. */
type Parse<Value> = (value: string, name: string) => Value;

/**
 * Returns the function that describes a setting of a kind, by its allowed values in Markdown, its parser, and the value and default text of
 * one that is not set.
 */
const kind =
  <Value, Unset>(allowed: string, parse: Parse<Value>, unset: Unset, initial = NONE) =>
  (meaning: string, defaultText = initial): Setting<Value | Unset> => ({
    defaultText,
    allowed,
    meaning,
    read: (env, name) => {
      const value = text(env, name);
      return value === undefined ? unset : parse(value, name);
    },
  });

/** Marks a setting as secret: its value is in its variable, or in the file of its `fileVariable`. */
const secret =
  <Value, Unset>(describe: ReturnType<typeof kind<Value, Unset>>): typeof describe =>
  (...described) => {
    const setting = describe(...described);
    return { ...setting, isSecret: true, read: (env, name) => setting.read(withSecretFile(env, name), name) };
  };

const asText = (value: string): string => value;
const shownBounds = ([min, max]: Bounds): string => `${grouped(min)}–${grouped(max)}`;

/** An integer; its unit is in the name of the setting. */
export function whole(defaultValue: number, bounds: Bounds, meaning: string): Setting<number> {
  const parse: Parse<number> = (value, name) => integer(value, name, bounds);
  return kind(shownBounds(bounds), parse, defaultValue, code(defaultValue))(meaning);
}

/** `undefined` if it is `auto`: the value then depends on the machine. */
export function wholeOrAuto(bounds: Bounds, meaning: string): Setting<number | undefined> {
  const parse: Parse<number | undefined> = (value, name) =>
    value === 'auto' ? undefined : integer(value, name, bounds, 'auto or ');
  return kind(`\`auto\`, ${shownBounds(bounds)}`, parse, undefined, code('auto'))(meaning);
}

/** A name that existing clients expect. */
export function word(defaultValue: string, meaning: string): Setting<string> {
  return kind('letters, digits, hyphens', token, defaultValue, code(defaultValue))(meaning);
}

export function anyText(defaultValue: string, allowed: string, meaning: string): Setting<string> {
  return kind(allowed, asText, defaultValue, code(defaultValue))(meaning);
}

/** `undefined` if it is not set: the default then depends on other settings, or there is none. */
type Optional<Value> = Setting<Value | undefined>;

/** A text, validated by the code that uses it. */
export function unvalidatedText(defaultText: string, allowed: string, meaning: string): Optional<string> {
  return kind(allowed, asText, undefined)(meaning, defaultText);
}

/** A secret text, validated by the code that uses it. */
export function secretText(defaultText: string, allowed: string, meaning: string): Optional<string> {
  return secret(kind(allowed, asText, undefined))(meaning, defaultText);
}

export function choice(defaultText: string, choices: readonly string[], meaning: string): Optional<string> {
  const parse: Parse<string> = (value, name) => oneOf(value, name, choices);
  return kind(choices.map(code).join(', '), parse, undefined, defaultText)(meaning);
}

const EMPTY: readonly never[] = Object.freeze([]);
export const onOff = kind('`1` or `0`', flag, false, 'off');
export const words = kind('words, separated by commas', list, EMPTY);
export const networkList = kind('CIDRs, separated by commas', networks, EMPTY);
export const originList = kind('origins, separated by commas', parseOrigins, EMPTY);
export const address = kind('a URL', publicAddress, undefined);
export const mailAddress = kind('an e-mail address', asText, undefined);
export const contact = kind('`mailto:…`, `https://…`', contactUri, undefined);
export const storeId = kind('the id of a store', parseStoreId, undefined);
export const shownName = kind('1 to 40 characters', brandName, 'Halcyon', code('Halcyon'));
export const color = kind('`#rrggbb`', brandColor, undefined);
export const database = secret(kind('`postgres://…`', databaseUrl, undefined));
export const databasesOfShards = secret(
  kind('`<first>-<last>=postgres://…`, separated by spaces', shardDatabases, undefined),
);
export const secretKey = secret(kind('32 bytes: hex or base64', key, undefined));
export const mailUrl = secret(kind('`smtps://…`, `smtp://…`', smtpUrl, undefined));
export const proxyUrl = secret(kind('`http://…`', forwardProxy, undefined));
export const openIdProviders = secret(kind('a JSON array', parseOpenIdProviders, EMPTY));

function parseStoreId(value: string, name: string): number {
  if (/^[1-9]\d{0,15}$/.test(value)) return Number(value);
  throw new ConfigError(`${name} must be the id of a store, a whole number such as 986`);
}

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

/** Returns whether what is sent to the address cannot be read on the way. */
function isSafe({ protocol, hostname }: URL): boolean {
  return protocol === 'https:' || (protocol === 'http:' && LOOPBACK.has(hostname));
}

/** They are in a header of each page. */
const ORIGINS_MAX = 20;

function parseOrigins(value: string, name: string): readonly string[] {
  const origins = list(value);
  if (origins.length > ORIGINS_MAX) throw new ConfigError(`${name} has more than ${ORIGINS_MAX} origins`);
  for (const origin of origins) {
    const url = URL.parse(origin);
    if (url?.origin !== origin || !isSafe(url) || /[*;,\s]/.test(origin))
      throw new ConfigError(
        `${name} has "${origin}": write origins such as https://admin.example.com, separated by commas`,
      );
  }
  return Object.freeze(origins);
}

// The OpenID providers with which people sign in: a JSON array in one setting, because each has a secret and options of its own.

const DOMAIN = '^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$';

const Providers = Type.Array(
  Type.Object(
    {
      /** In the text of the button and in addresses. */
      name: Type.String({ pattern: '^[A-Za-z][A-Za-z0-9-]{0,40}$' }),
      issuer: Type.String({ minLength: 1, maxLength: 2_000 }),
      client_id: Type.String({ minLength: 1, maxLength: 1_000 }),
      client_secret: Type.String({ minLength: 1, maxLength: 1_000 }),
      domains: Type.Optional(Type.Array(Type.String({ pattern: DOMAIN, maxLength: 253 }))),
      creates_accounts: Type.Optional(Type.Boolean()),
    },
    { additionalProperties: false },
  ),
  { maxItems: 20 },
);
const compiled = Compile(Providers);

export type OpenIdProvider = {
  /** In the text of the button and in addresses. */
  readonly name: string;
  /** As the provider writes it, which is compared with its tokens. */
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Domains of the e-mail addresses that may be linked; empty: all. */
  readonly domains: readonly string[];
  /** Whether the first sign-in of an address in these domains creates an account. */
  readonly createsAccounts: boolean;
};

const PROVIDERS_EXAMPLE =
  '[{"name": "Google", "issuer": "https://accounts.google.com", "client_id": "…", "client_secret": "…", "domains": ["example.com"]}]';

/** Returns why an issuer cannot be used; http is only for a provider on the same computer. */
function issuerFault(issuer: string): string | undefined {
  const url = URL.parse(issuer);
  if (url !== null && isSafe(url) && url.search === '' && url.hash === '' && url.username === '') return undefined;
  return 'issuer must be an https address such as https://accounts.google.com';
}

/** Returns why the providers cannot be used together; undefined if they can. */
function faultOf(providers: Static<typeof Providers>): string | undefined {
  const [names, issuers] = [new Set<string>(), new Set<string>()];
  for (const { name, issuer, domains = [], creates_accounts: creates } of providers) {
    const fault = issuerFault(issuer);
    if (fault !== undefined) return `${name}: ${fault}`;
    if (creates === true && domains.length === 0)
      return `${name}: list the domains of the addresses for which creates_accounts creates accounts`;
    if (names.has(name.toLowerCase())) return `${name}: two providers have this name`;
    // The identities of two clients at one issuer would be the same.
    if (issuers.has(issuer)) return `${name}: another provider has the same issuer`;
    names.add(name.toLowerCase());
    issuers.add(issuer);
  }
  return undefined;
}

/** Messages do not quote the value: it contains secrets. */
function parseOpenIdProviders(value: string, name: string): readonly OpenIdProvider[] {
  const refuse = (why: string): never => {
    throw new ConfigError(`${name}: ${why}`);
  };
  let providers: unknown;
  try {
    providers = JSON.parse(value);
  } catch {
    return refuse(`it is not JSON: write an array such as ${PROVIDERS_EXAMPLE}`);
  }
  if (!compiled.Check(providers)) {
    const [, [error]] = compiled.Errors(providers);
    return refuse(
      `${error?.instancePath === '' ? 'it' : error?.instancePath} ${error?.message}: write an array such as ${PROVIDERS_EXAMPLE}`,
    );
  }
  const fault = faultOf(providers);
  if (fault !== undefined) return refuse(fault);
  return providers.map((provider) =>
    Object.freeze({
      name: provider.name,
      issuer: provider.issuer,
      clientId: provider.client_id,
      clientSecret: provider.client_secret,
      domains: provider.domains ?? [],
      createsAccounts: provider.creates_accounts === true,
    }),
  );
}

// Reads `SHARD_DATABASES`: the databases that own the shards.

/** The shards `first` to `last` belong to the database at `url`. */
export type ShardRange = { first: number; last: number; url: string };

const LAST_SHARD = 255;
const DATABASES_EXAMPLE = '0-127=postgres://one/halcyon 128-255=postgres://two/halcyon';

const shown = ({ first, last }: Pick<ShardRange, 'first' | 'last'>): string =>
  first === last ? String(first) : `${first}-${last}`;

/** The message contains no address, because addresses have passwords. */
function readRange(name: string, written: string): ShardRange {
  const [, first = '', last = first, url = ''] =
    /^(\d{1,3})(?:-(\d{1,3}))?=(postgres(?:ql)?:\/\/\S+)$/.exec(written) ?? [];
  const range = { first: Number(first), last: Number(last), url };
  if (/,[\d-]+=postgres/.test(url))
    throw new ConfigError(`${name} has a comma between two ranges: write a space, as in "${DATABASES_EXAMPLE}"`);
  const [start = ''] = /^[\d-]+=/.exec(written) ?? [];
  const fault = databaseUrlFault(url);
  if (first !== '' && fault !== undefined) throw new ConfigError(`${name} has the part "${start}…", which ${fault}`);
  if (first !== '' && range.first <= range.last && range.last <= LAST_SHARD) return range;
  throw new ConfigError(
    `${name} has the part "${start}…", which is not <first>-<last>=postgres://… with shards from 0 to ${LAST_SHARD}: write it as in "${DATABASES_EXAMPLE}"`,
  );
}

/** Returns the ranges in the order of their shards; undefined for white space. Throws a `ConfigError` for a gap or an overlap. */
export function shardDatabases(value: string, name: string): readonly ShardRange[] | undefined {
  const parts = value.split(/\s+/).filter((part) => part !== '');
  if (parts.length === 0) return undefined;
  const ranges = parts.map((part) => readRange(name, part)).toSorted((a, b) => a.first - b.first);
  let next = 0;
  for (const range of ranges) {
    if (range.first < next)
      throw new ConfigError(
        `${name} has two databases for the shards ${shown({ first: range.first, last: Math.min(next - 1, range.last) })}: assign each shard once`,
      );
    if (range.first > next)
      throw new ConfigError(
        `${name} has no database for the shards ${shown({ first: next, last: range.first - 1 })}: assign every shard from 0 to ${LAST_SHARD}`,
      );
    next = range.last + 1;
  }
  if (next <= LAST_SHARD)
    throw new ConfigError(
      `${name} has no database for the shards ${shown({ first: next, last: LAST_SHARD })}: assign every shard from 0 to ${LAST_SHARD}`,
    );
  return ranges;
}
