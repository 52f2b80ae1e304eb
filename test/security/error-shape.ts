/** Checks that an answer is the common error document (contract, section 3) as HAL JSON. */
type Fields = Readonly<Record<string, unknown>>;

/** Codes about a member of the input, which must name it. */
const OF_A_MEMBER = new Set([
  'required',
  'unknown_property',
  'too_long',
  'too_short',
  'unknown_parameter',
  'unknown_relation',
]);
const OF_A_FAULT = new Set(['logref', 'code', 'message', 'field']);
const OF_A_DOCUMENT = new Set(['total', '_links', '_embedded']);
const OF_OAUTH = ['error', 'error_description'] as const;

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isText = (value: unknown): value is string => typeof value === 'string' && value.trim() !== '';

function wrongInFault(fault: unknown): string | undefined {
  if (!isFields(fault)) return 'an error that is no object';
  const { logref, code, message, field } = fault;
  const other = Object.keys(fault).find((name) => !OF_A_FAULT.has(name));
  if (other !== undefined) return `an error with a member ${other}`;
  if (typeof logref !== 'string' || !/^id-[\w-]{8,}$/.test(logref)) return 'an error without logref';
  if (typeof code !== 'string' || !/^[a-z][a-z0-9_]*$/.test(code)) return 'an error without code';
  if (!isText(message)) return 'an error without message';
  if (/\n\s+at |node:internal|\.ts:\d/.test(message)) return 'an error that shows our stack';
  if (field !== undefined && typeof field !== 'string') return 'a field that is no text';
  return field === undefined && OF_A_MEMBER.has(code) ? `${code} without a field` : undefined;
}

/** Returns the errors of an error document; empty for another document. */
export function faultsOf(text: string): readonly Fields[] {
  const document = readJson(text);
  const embedded = isFields(document) ? document['_embedded'] : undefined;
  const faults = isFields(embedded) ? embedded['svc:errors'] : undefined;
  return Array.isArray(faults) ? (faults as Fields[]) : [];
}

/** Returns what is wrong with the body of a 4xx; undefined if it has the common format. */
export function wrongInError(status: number, text: string): string | undefined {
  const document = readJson(text);
  if (!isFields(document)) return 'no JSON object';
  const faults = faultsOf(text);
  if (faults.length === 0) return 'no errors';
  if (document['total'] !== faults.length) return `a total of ${String(document['total'])} for ${faults.length} errors`;
  if (!isFields(document['_links']) || !Array.isArray(document['_links']['curies'])) return 'no curies';
  const isOAuth = status === 401 || status === 403;
  if (isOAuth && !OF_OAUTH.every((name) => isText(document[name]))) return 'no members of OAuth';
  const known = new Set([...OF_A_DOCUMENT, ...(isOAuth ? OF_OAUTH : [])]);
  const other = Object.keys(document).find((name) => !known.has(name));
  if (other !== undefined) return `a member ${other}`;
  return faults.map(wrongInFault).find((wrong) => wrong !== undefined);
}
