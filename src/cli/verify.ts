/** `halcyon verify`: verifies a delivery stored in files, and explains a failure. */
import { verifyDelivery, WebhookError, type Delivery } from '#receiver';
import { hexSignature, SECRET_PREFIX, standardSignature } from '#delivery/attempt/attempt-request.ts';
import { isPublicKey, isSignedBy, publicKeyOf } from '#core/keys.ts';
import { CliCommand, readFileOf } from './command.ts';
import { UserError } from './explain.ts';
import type { Terminal } from './terminal.ts';

type Found = {
  headers: Readonly<Record<string, string>>;
  body: Buffer;
  keys: readonly string[];
  headerPrefix: string;
};

/** By the name of its header. */
type Matches = Readonly<Record<string, boolean>>;

/** Returns which signatures match. Comparisons need no constant time, because the caller has the key. */
export function matchesOf({ headers, body, keys, headerPrefix }: Found): Matches {
  const header = (name: string): string => headers[name.toLowerCase()] ?? '';
  const hex = [`${headerPrefix}-Webhook-Signature`, `${headerPrefix}-Webhook-Signature-Next`];
  const [id, timestamp] = [header('webhook-id'), header('webhook-timestamp')];
  const standard = header('webhook-signature').split(' ');
  // Everyone knows a public key, so an HMAC of it proves nothing.
  const secrets = keys.filter((key) => !isPublicKey(key));
  const entries = hex
    .filter((name) => header(name) !== '')
    .map((name) => [name, secrets.some((key) => hexSignature(body, key) === header(name))] as const);
  const isStandard = keys.some(
    (key) =>
      (secrets.includes(key) && standard.includes(standardSignature(body, id, timestamp, key))) ||
      standard.some((one) => isSignedBy(key, Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]), one)),
  );
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
function hintOf(found: Found): string {
  const matches = Object.entries(matchesOf(found));
  const [wrong] = matches.find(([, isOne]) => !isOne) ?? [];
  if (matches.some(([, isOne]) => isOne)) {
    return wrong === 'webhook-signature'
      ? 'The body and the key are right: webhook-id or webhook-timestamp were changed'
      : `The body and the key are right: ${wrong} was changed`;
  }
  return mistakeIn(found) ?? 'The key is another, or the body was changed: none of its bytes may differ from what came';
}

type Options = { keyFile: string[]; headers: string; body: string; maxAge: number; decrypt?: true };

const AGE = { min: 0, max: Number.MAX_SAFE_INTEGER, unit: ' of seconds' };

const LINES = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*$/gm;

/** Parses lines of `Name: value`; ignores other lines, such as the status line of `curl -D`. */
function headersIn(text: string): Record<string, string> {
  return Object.fromEntries(
    Array.from(text.matchAll(LINES), ([, name = '', value = '']) => [name.toLowerCase(), value]),
  );
}

const titled = (name: string): string => name.replaceAll(/(^|-)[a-z]/g, (letter) => letter.toUpperCase());

async function foundIn({ keyFile, headers, body }: Options, terminal: Terminal): Promise<Found> {
  const keys = await Promise.all(keyFile.map((path) => readFileOf('--key-file', path, terminal)));
  const named = headersIn((await readFileOf('--headers', headers, terminal)).toString());
  if (Object.keys(named).length === 0)
    throw new UserError(`--headers: ${headers} has no line such as webhook-id: msg_1; curl -D writes such a file`);
  return {
    keys: keys.map((key) => publicKeyOf(key.toString().trim()) ?? key.toString().trim()),
    headers: named,
    body: await readFileOf('--body', body, terminal),
    headerPrefix: titled(prefixIn(named) ?? 'Service'),
  };
}

type Verdict = { delivery: Delivery } | { why: string };

async function check(found: Found, toleranceSeconds: number): Promise<Verdict> {
  try {
    return { delivery: await verifyDelivery({ ...found, toleranceSeconds }) };
  } catch (error) {
    if (!(error instanceof WebhookError)) throw error;
    if (error.code === 'bad_signature') return { why: `${hintOf(found)}.` };
    const isAge = error.code === 'too_old' || error.code === 'too_new';
    return { why: isAge ? `${error.message} The signatures are right; --max-age allows more.` : error.message };
  }
}

const show = (matches: Matches): string =>
  Object.entries(matches)
    .map(([name, isOne]) => `  ${name.padEnd(32)} ${isOne ? 'matches' : 'DOES NOT MATCH'}`)
    .join('\n');

function asObject(verdict: Verdict, matches: Matches): object {
  if ('why' in verdict) return { verified: false, reason: verdict.why, signatures: matches };
  const { id, event, timestamp, storeId, contentType } = verdict.delivery;
  return { verified: true, id, event, timestamp, store_id: storeId, content_type: contentType, signatures: matches };
}

async function verify(options: Options, terminal: Terminal): Promise<void> {
  const found = await foundIn(options, terminal);
  const [verdict, matches] = [await check(found, options.maxAge), matchesOf(found)];
  const isOpened = 'delivery' in verdict && options.decrypt === true;
  // With --decrypt, stdout contains only the decrypted body.
  const write = isOpened ? terminal.warn : terminal.print;
  if (terminal.isJson === true) write(JSON.stringify(asObject(verdict, matches)));
  else {
    const title =
      'delivery' in verdict ? `Verified: ${verdict.delivery.event}, ${verdict.delivery.id}` : 'Not verified';
    write(`${title}\n${show(matches)}`);
  }
  if ('why' in verdict) throw new UserError(verdict.why);
  if (isOpened) terminal.print(Buffer.from(verdict.delivery.body).toString());
}

export function createVerifyCommand(terminal: Terminal): CliCommand {
  return new CliCommand('verify')
    .description('verify a delivery stored in files; needs no server')
    .requiredOption(
      '--key-file <file...>',
      'a file with the encryption_key or the public_key of the webhook; may be repeated, for example during a rotation',
    )
    .requiredOption('--headers <file>', 'a file with the headers, one per line as Name: value, such as curl -D writes')
    .requiredOption('--body <file>', 'a file with the body, byte for byte')
    .number('--max-age <seconds>', 'the maximum age of the delivery', AGE, 300)
    .option('--decrypt', 'print the decrypted body if the delivery is verified')
    .examples('halcyon verify --key-file key --headers headers.txt --body body.json --max-age 3600')
    .action((options: Options) => verify(options, terminal));
}

const NAME = /^(.+)-webhook-(?:event|signature)$/i;

export function prefixIn(headers: Readonly<Record<string, string>>): string | undefined {
  return Object.keys(headers).flatMap((name) => NAME.exec(name)?.[1] ?? [])[0];
}
