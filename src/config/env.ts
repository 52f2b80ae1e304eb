/** The parsers of environment variables. An invalid value throws a `ConfigError` that names the variable and says what to change. */
import { closeSync, openSync, readSync } from 'node:fs';
import { isIP } from 'node:net';
import { isAbsolute, resolve } from 'node:path';
import { ConfigError } from '#core/config-error.ts';
import { DatabaseUrlFault, parseDatabaseUrl } from '#core/database-url.ts';

export type Env = Readonly<Record<string, string | undefined>>;

export type Bounds = readonly [min: number, max: number];

/** `or`: what the value may be instead, for the message. */
export function integer(value: string, name: string, [min, max]: Bounds, or = ''): number {
  const number = Number(value);
  if (Number.isInteger(number) && number >= min && number <= max) return number;
  throw new ConfigError(`${name} is "${value}": set it to ${or}a whole number from ${min} to ${max}`);
}

export function token(value: string, name: string): string {
  if (/^[A-Za-z][A-Za-z0-9-]{0,40}$/.test(value)) return value;
  throw new ConfigError(`${name} is "${value}": set it to letters, digits and hyphens, at most 41, a letter first`);
}

/** Returns undefined if the variable is unset or empty. */
export function text(env: Env, name: string): string | undefined {
  return env[name] || undefined;
}

/** Reads the file of a setting; throws a `ConfigError` if it cannot be read or is too large. A device has no size, so the limit counts what is read. */
export function readFileOf(setting: string, path: string, bytesMax: number, cwd = '/'): Buffer {
  const refuse = (why: string): never => {
    throw new ConfigError(`${setting} is "${path}": ${why}`);
  };
  const body = Buffer.alloc(bytesMax + 1);
  let bytes = 0;
  try {
    const file = openSync(resolve(cwd, path), 'r');
    try {
      for (let more = -1; more !== 0 && bytes < body.length; bytes += more)
        more = readSync(file, body, bytes, body.length - bytes, null);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return refuse(`set it to the path of a file that this user can read (${code})`);
  }
  if (bytes > bytesMax) refuse(`the file has more than ${bytesMax} bytes`);
  return body.subarray(0, bytes);
}

const SECRET_BYTES_MAX = 64 * 1024;

/** The variable with the path of the file that has the value of a secret setting. */
export function fileVariable(name: string): string {
  return `${name}_FILE`;
}

/**
 * Returns the environment of one secret setting, whose value may be in a file (`fileVariable`). Messages quote only an absolute path,
 * because an operator may have written the secret itself.
 */
export function withSecretFile(env: Env, name: string): Env {
  const variable = fileVariable(name);
  const path = text(env, variable);
  if (path === undefined) return env;
  if (text(env, name) !== undefined) throw new ConfigError(`${name} and ${variable} are both set: unset one of them`);
  if (!isAbsolute(path)) throw new ConfigError(`${variable} must be an absolute path, such as /run/secrets/halcyon`);
  const value = readFileOf(variable, path, SECRET_BYTES_MAX)
    .toString('utf8')
    .replace(/\r?\n$/, '');
  if (value === '')
    throw new ConfigError(`${variable} is "${path}": the file is empty; write the value of ${name} into it`);
  return { [name]: value };
}

/** Returns a secret text from its variable or its file; undefined if neither is set. */
export function readSecret(env: Env, name: string): string | undefined {
  return text(withSecretFile(env, name), name);
}

/** Returns what is wrong with the percent-encoding of a URL; undefined if it can be decoded. */
function encodingFault(value: string): string | undefined {
  try {
    decodeURIComponent(value);
    return undefined;
  } catch {
    return 'has a % that encodes no character: write the character % as %25';
  }
}

/** Parses a URL. A message does not have the value, which may have a password. */
function parseUrl(value: string, name: string, { protocol, example }: { protocol: RegExp; example: string }): URL {
  const parsed = URL.parse(value);
  if (parsed === null || !protocol.test(parsed.protocol) || parsed.hostname === '')
    throw new ConfigError(`${name} is not an address such as ${example}`);
  const fault = encodingFault(value);
  if (fault !== undefined) throw new ConfigError(`${name} ${fault}`);
  return parsed;
}

/** Returns an address as parsed, so that its host is in ASCII and lower case, without a slash at its end. */
export function publicAddress(value: string, name: string): string {
  const example = 'https://api.example.com';
  const parsed = parseUrl(value, name, { protocol: /^https?:$/, example });
  const { origin, username, password, pathname, search, hash } = parsed;
  if (username + password + search + hash !== '')
    throw new ConfigError(`${name} has more than a scheme, a host, a port and a path: write it as in ${example}`);
  // Routes are compared with decoded paths, and `:` and `*` have a meaning in them.
  if (!/^[\w.~/-]*$/.test(pathname))
    throw new ConfigError(`${name} has a path with other characters than letters, digits and - . _ ~: use only these`);
  return origin + pathname.replace(/\/+$/, '');
}

/** Returns the URL of a database, which `db/servers.ts` parses. */
export function databaseUrl(value: string, name: string): string {
  const fault = databaseUrlFault(value);
  if (fault !== undefined) throw new ConfigError(`${name} ${fault}`);
  return value;
}

/** Returns what is wrong with the URL of a database; undefined if it can be used. */
export function databaseUrlFault(value: string): string | undefined {
  try {
    parseDatabaseUrl(value);
    return undefined;
  } catch (error) {
    if (error instanceof DatabaseUrlFault) return error.message;
    throw error;
  }
}

export function flag(value: string, name: string): boolean {
  if (value === '0' || value === 'false') return false;
  if (value === '1' || value === 'true') return true;
  throw new ConfigError(`${name} is "${value}": set it to 1 or 0`);
}

export function smtpUrl(value: string, name: string): string {
  return parseUrl(value, name, { protocol: /^smtps?:$/, example: 'smtps://user:password@mail.example.com' }).href;
}

/** Returns the address of a contact (RFC 9116 §2.5.3). */
export function contactUri(value: string, name: string): string {
  if (/^(?:https:\/\/[^\s@]+|mailto:[^\s@]+@[^\s@]+)$/.test(value)) return value;
  throw new ConfigError(`${name} is "${value}": set it to an address such as mailto:security@example.com`);
}

export type ForwardProxy = { host: string; port: number; authorization: string | null };

/** Parses `http://user:password@host:port`; the credentials become a Basic authorization (RFC 7617). */
export function forwardProxy(value: string, name: string): ForwardProxy {
  const example = 'http://user:password@proxy.example.com:3128';
  const parsed = parseUrl(value, name, { protocol: /^http:$/, example });
  const { hostname, port, username, password, pathname, search, hash } = parsed;
  if (pathname + search + hash !== '/') throw new ConfigError(`${name} has a path: write it as in ${example}`);
  const credentials = [username, password].map(decodeURIComponent).join(':');
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: Number(port) || 80,
    authorization: credentials === ':' ? null : `Basic ${Buffer.from(credentials).toString('base64')}`,
  };
}

/** Returns the mail server and sender; undefined if no mail is configured. */
export function mailServer(url: string | undefined, address = '', name = '') {
  if (url === undefined) return undefined;
  if (/^[^\s@]+@[^\s@]+$/.test(address)) return { url, from: { name, address } };
  throw new ConfigError('Set MAIL_FROM beside SMTP_URL: the address that mails come from, such as halcyon@example.com');
}

export function oneOf(value: string, name: string, choices: readonly string[]): string {
  if (choices.includes(value)) return value;
  throw new ConfigError(`${name} is "${value}": set it to one of ${choices.join(', ')}`);
}

const MAKE_KEY = 'make one with "openssl rand -hex 32"';

/** Returns 32 bytes, given as 64 hex digits or base64. */
export function key(value: string, name: string): Buffer {
  const bytes = /^[0-9a-f]{64}$/i.test(value) ? Buffer.from(value, 'hex') : Buffer.from(value, 'base64');
  if (bytes.length === 32) return bytes;
  throw new ConfigError(`${name} must be 32 bytes, written as 64 hex digits or base64: ${MAKE_KEY}`);
}

/**
 * Returns the sealing key and the other keys that only open. Undefined if none is set, which only the embedded database
 * allows: it generates one.
 */
export function secretKeys(
  secret: Buffer | undefined,
  other: Buffer | undefined,
  isEmbedded: boolean,
): readonly [Buffer, ...Buffer[]] | undefined {
  if (secret === undefined) {
    if (other !== undefined)
      throw new ConfigError(
        'Set HALCYON_SECRET_KEY beside HALCYON_SECRET_KEY_OTHER: the key that seals, as one of two',
      );
    if (isEmbedded) return undefined;
    throw new ConfigError(`Set HALCYON_SECRET_KEY beside DATABASE_URL, it seals secrets at rest: ${MAKE_KEY}`);
  }
  if (other === undefined) return [secret];
  if (!other.equals(secret)) return [secret, other];
  throw new ConfigError('HALCYON_SECRET_KEY_OTHER is the same key as HALCYON_SECRET_KEY: omit it');
}

export function list(value: string): string[] {
  return value
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

/** Addresses and networks, such as `10.0.0.0/8,::1`. */
export function networks(value: string, name: string): string[] {
  const parts = list(value);
  for (const part of parts) {
    const [address = '', bits = '0', ...rest] = part.split('/');
    const most = isIP(address) === 6 ? 128 : 32;
    const isNetwork = isIP(address) !== 0 && /^[0-9]{1,3}$/.test(bits) && Number(bits) <= most && rest.length === 0;
    if (!isNetwork)
      throw new ConfigError(`${name} has "${part}": write networks such as 10.0.0.0/8, separated by commas`);
  }
  return parts;
}
