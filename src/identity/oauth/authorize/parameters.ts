/** Parses the parameters of /authorize from the raw query. */
import { isUtf8 } from 'node:buffer';

const PARAMETERS = [
  'client_id',
  'redirect_uri',
  'response_type',
  'scope',
  'state',
  'response_mode',
  'code_challenge',
  'code_challenge_method',
] as const;
type Parameter = (typeof PARAMETERS)[number];

export type Parameters = {
  values: Readonly<Partial<Record<Parameter, string>>>;
  /** Repeated parameters. They have no value, because it would be ambiguous. */
  repeated: ReadonlySet<Parameter>;
  /** The values of `resource`, which may be repeated (RFC 8707 §2). */
  resources: readonly string[];
  /** Parameters whose value is not UTF-8 or contains a NUL, and so could not be returned unchanged. */
  unreadable: ReadonlySet<Parameter>;
};

const isParameter = (name: string): name is Parameter => (PARAMETERS as readonly string[]).includes(name);

/**
 * Returns whether a pair is valid UTF-8 without NUL. It checks the percent sequences, because after decoding invalid bytes
 * and an intended U+FFFD (`%EF%BF%BD`) are the same. All other characters are ASCII: node:http rejects a request line with
 * other bytes.
 */
function isReadable(raw: string): boolean {
  const decoded = raw.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  const bytes = Buffer.from(decoded, 'latin1');
  return isUtf8(bytes) && !bytes.includes(0);
}

/** Parses `rawQuery` (without `?`) as a form (RFC 6749 §3.1). A parameter without a value counts as absent. */
export function readParameters(rawQuery: string): Parameters {
  const values: Partial<Record<Parameter, string>> = {};
  const seen = new Set<Parameter>();
  const repeated = new Set<Parameter>();
  const unreadable = new Set<Parameter>();
  const resources: string[] = [];
  for (const pair of rawQuery.split('&')) {
    // URLSearchParams strips one leading `?`, so that a `?` at the start of the pair remains part of the name.
    const [[name, value] = ['', '']] = new URLSearchParams(`?${pair}`);
    if (name === 'resource') resources.push(value);
    if (!isParameter(name)) continue;
    if (seen.has(name)) repeated.add(name);
    seen.add(name);
    if (value !== '') values[name] = value;
    if (!isReadable(pair)) unreadable.add(name);
  }
  for (const name of repeated) delete values[name];
  return { values, repeated, resources, unreadable };
}
