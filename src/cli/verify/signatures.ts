/** Checks each signature of a delivery, and finds the likely reason of a mismatch. */
import { hexSignature, SECRET_PREFIX, standardSignature } from '#delivery/attempt/request.ts';

export type Found = {
  headers: Readonly<Record<string, string>>;
  body: Buffer;
  keys: readonly string[];
  headerPrefix: string;
};

/** By the name of its header. */
export type Matches = Readonly<Record<string, boolean>>;

/** Returns which signatures match. Comparisons need no constant time, because the caller has the key. */
export function matchesOf({ headers, body, keys, headerPrefix }: Found): Matches {
  const header = (name: string): string => headers[name.toLowerCase()] ?? '';
  const hex = [`${headerPrefix}-Webhook-Signature`, `${headerPrefix}-Webhook-Signature-Next`];
  const [id, timestamp] = [header('webhook-id'), header('webhook-timestamp')];
  const standard = header('webhook-signature').split(' ');
  const entries = hex
    .filter((name) => header(name) !== '')
    .map((name) => [name, keys.some((key) => hexSignature(body, key) === header(name))] as const);
  const isStandard = keys.some((key) => standard.includes(standardSignature(body, id, timestamp, key)));
  return Object.fromEntries([...entries, ['webhook-signature', isStandard] as const]);
}

const isRight = (found: Found): boolean => Object.values(matchesOf(found)).includes(true);

const BODIES: readonly (readonly [change: (body: Buffer) => Buffer, hint: string])[] = [
  [
    (body) => (body.at(-1) === 0x0a ? body.subarray(0, body.at(-2) === 0x0d ? -2 : -1) : body),
    'The body has a line end at its end that was not sent: write the file without it',
  ],
  [
    (body) => Buffer.from(body.toString('latin1').replaceAll('\r\n', '\n'), 'latin1'),
    'The line ends of the body were changed: keep the bytes as they came',
  ],
  [
    (body) => {
      try {
        return Buffer.from(JSON.stringify(JSON.parse(body.toString())));
      } catch {
        return body;
      }
    },
    'The body was parsed and written again: keep the bytes as they came',
  ],
];

const KEYS: readonly (readonly [change: (key: string) => string, hint: string])[] = [
  [(key) => SECRET_PREFIX + key, 'The key lacks the whsec_ that it begins with'],
  [
    (key) => (key.startsWith(SECRET_PREFIX) ? key.slice(SECRET_PREFIX.length) : key),
    'The key has a whsec_ before it that is not part of it',
  ],
];

/** Returns the hint of the first mistake that explains the mismatch; undefined if none does. */
function mistakeIn(found: Found): string | undefined {
  const body = BODIES.find(([change]) => isRight({ ...found, body: change(found.body) }));
  const key = KEYS.find(([change]) => isRight({ ...found, keys: found.keys.map(change) }));
  return (body ?? key)?.[1];
}

/** Returns the likely reason of a mismatch. */
export function hintOf(found: Found): string {
  const matches = Object.entries(matchesOf(found));
  const [wrong] = matches.find(([, isOne]) => !isOne) ?? [];
  if (matches.some(([, isOne]) => isOne)) {
    return wrong === 'webhook-signature'
      ? 'The body and the key are right: webhook-id or webhook-timestamp were changed'
      : `The body and the key are right: ${wrong} was changed`;
  }
  return mistakeIn(found) ?? 'The key is another, or the body was changed: none of its bytes may differ from what came';
}
