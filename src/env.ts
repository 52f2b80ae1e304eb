/** Single values of the environment. What cannot be used is a `ConfigError` that says what to change. */
import { isIP } from 'node:net';

export class ConfigError extends Error {}

export type Env = Readonly<Record<string, string | undefined>>;

export const integer = (env: Env, name: string, fallback: number, min: number, max: number): number => {
  const text = env[name];
  if (text === undefined || text === '') return fallback;
  const value = Number(text);
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new ConfigError(`${name} is "${text}": set it to a whole number from ${min} to ${max}`);
};

export const token = (env: Env, name: string, fallback: string): string => {
  const text = env[name] || fallback;
  if (/^[A-Za-z][A-Za-z0-9-]{0,40}$/.test(text)) return text;
  throw new ConfigError(`${name} is "${text}": set it to letters, digits and hyphens, at most 41, a letter first`);
};

export const origin = (env: Env, name: string, fallback: string): string => {
  const text = env[name] || fallback;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const plain = url !== undefined && /^https?:$/.test(url.protocol) && url.search === '' && url.hash === '';
  if (plain && url.username === '' && url.password === '') return text.replace(/\/+$/, '');
  throw new ConfigError(`${name} is "${text}": set it to an address such as https://api.example.com`);
};

export const databaseUrl = (env: Env, name: 'DATABASE_URL' | 'DATABASE_DIRECT_URL'): string | undefined => {
  const text = env[name];
  if (text === undefined || text === '') return undefined;
  if (/^postgres(ql)?:\/\//.test(text) && URL.canParse(text)) return text;
  throw new ConfigError(`${name} is not an address such as postgres://user:password@host:5432/halcyon`);
};

export const flag = (env: Env, name: string): boolean => {
  const text = env[name] ?? '';
  if (text === '' || text === '0' || text === 'false') return false;
  if (text === '1' || text === 'true') return true;
  throw new ConfigError(`${name} is "${text}": set it to 1 or 0`);
};

/** Where mail is handed in, and whom it comes from; undefined where the operator has set up none. */
export const mailServer = (env: Env): { url: string; from: string } | undefined => {
  const url = env['SMTP_URL'];
  if (url === undefined || url === '') return undefined;
  if (!/^smtps?:\/\//.test(url) || !URL.canParse(url))
    throw new ConfigError('SMTP_URL is not an address such as smtps://user:password@mail.example.com');
  const from = env['MAIL_FROM'] ?? '';
  if (/^[^\s@]+@[^\s@]+$/.test(from)) return { url, from };
  throw new ConfigError('Set MAIL_FROM beside SMTP_URL: the address that mails come from, such as halcyon@example.com');
};

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

/** On a laptop the terminal is for the person, so the log is quieter there. */
export const logLevel = (env: Env): string => {
  const level = env['LOG_LEVEL'] || (env['DATABASE_URL'] ? 'info' : 'warn');
  if (LOG_LEVELS.includes(level)) return level;
  throw new ConfigError(`LOG_LEVEL is "${level}": set it to one of ${LOG_LEVELS.join(', ')}`);
};

/**
 * 32 bytes as 64 hex digits or base64. Undefined where it is not set, which only the embedded database allows: there one
 * is generated.
 */
export const secretKey = (env: Env): Buffer | undefined => {
  const text = env['HALCYON_SECRET_KEY'];
  const make = 'make one with "openssl rand -hex 32"';
  if (text === undefined || text === '') {
    if (!env['DATABASE_URL']) return undefined;
    throw new ConfigError(`Set HALCYON_SECRET_KEY beside DATABASE_URL, it seals secrets at rest: ${make}`);
  }
  const key = /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, 'hex') : Buffer.from(text, 'base64');
  if (key.length === 32) return key;
  throw new ConfigError(`HALCYON_SECRET_KEY must be 32 bytes, written as 64 hex digits or base64: ${make}`);
};

export const list = (env: Env, name: string): string[] =>
  (env[name] ?? '')
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');

/** Addresses and networks, such as `10.0.0.0/8,::1`. */
export const networks = (env: Env, name: string): string[] => {
  const parts = list(env, name);
  for (const part of parts) {
    const [address = '', bits = '0', ...rest] = part.split('/');
    const most = isIP(address) === 6 ? 128 : 32;
    const isNetwork = isIP(address) !== 0 && /^[0-9]{1,3}$/.test(bits) && Number(bits) <= most && rest.length === 0;
    if (!isNetwork) throw new ConfigError(`${name} has "${part}": write networks such as 10.0.0.0/8, parted by commas`);
  }
  return parts;
};
