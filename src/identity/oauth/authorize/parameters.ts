/** The parameters of /authorize, out of the query as it came. */
import { isUtf8 } from 'node:buffer';

const PARAMETERS = [
  'client_id',
  'redirect_uri',
  'response_type',
  'scope',
  'state',
  'code_challenge',
  'code_challenge_method',
] as const;
type Parameter = (typeof PARAMETERS)[number];

export type Parameters = {
  given: Readonly<Partial<Record<Parameter, string>>>;
  /** A repeated parameter has no value: there is no telling which was meant. */
  repeated: ReadonlySet<Parameter>;
  /** Those whose value is not UTF-8 text, or has a NUL in it: it could not go back as it came. */
  unreadable: ReadonlySet<Parameter>;
};

const isParameter = (name: string): name is Parameter => (PARAMETERS as readonly string[]).includes(name);

/**
 * Asked of the percent sequences themselves, because decoded both broken bytes and a U+FFFD that was meant (`%EF%BF%BD`)
 * are the same. Whatever else is in the query is ASCII: node:http refuses a request line with other bytes.
 */
const isReadable = (raw: string): boolean => {
  const decoded = raw.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  const bytes = Buffer.from(decoded, 'latin1');
  return isUtf8(bytes) && !bytes.includes(0);
};

/** Reads `rawQuery` (without `?`) as a form (RFC 6749 §3.1); a parameter without a value counts as absent. */
export const readParameters = (rawQuery: string): Parameters => {
  const given: Partial<Record<Parameter, string>> = {};
  const seen = new Set<Parameter>();
  const repeated = new Set<Parameter>();
  const unreadable = new Set<Parameter>();
  for (const pair of rawQuery.split('&')) {
    // With a question mark of our own in front, one that the pair begins with stays part of the name.
    const [[name, value] = ['', '']] = new URLSearchParams(`?${pair}`);
    if (!isParameter(name)) continue;
    if (seen.has(name)) repeated.add(name);
    seen.add(name);
    if (value !== '') given[name] = value;
    if (!isReadable(pair)) unreadable.add(name);
  }
  for (const name of repeated) delete given[name];
  return { given, repeated, unreadable };
};
