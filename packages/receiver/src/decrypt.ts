/** What travelled over plain http: JWE compact serialization (RFC 7516 §7.1), `dir` and `A256GCM` (RFC 7518 §4.5, §5.3). */
import { fromBase64, joined, utf8, type Bytes } from './bytes.ts';
import { WebhookError } from './error.ts';

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

const refused = (what: string): WebhookError =>
  new WebhookError('not_decrypted', `The body cannot be decrypted: ${what}.`);

function fromBase64url(text: string): Bytes {
  if (!/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) throw refused('a part of it is no base64url');
  return fromBase64(text.replaceAll('-', '+').replaceAll('_', '/'));
}

const textOf = (bytes: Bytes): string => new TextDecoder().decode(bytes);

function headOf(part: string): Record<string, unknown> {
  try {
    return { ...(JSON.parse(textOf(fromBase64url(part))) as object) };
  } catch {
    throw refused('its head is no JSON');
  }
}

/** One algorithm: if the sender could choose among several, so could an attacker (RFC 8725 §3.1). */
function checkHeader({ alg, enc, zip, crit }: Record<string, unknown>): void {
  if (alg !== 'dir' || enc !== 'A256GCM') throw refused('only alg dir with enc A256GCM is known here');
  if (zip !== undefined || crit !== undefined) throw refused('zip and crit are not known here');
}

/** Tries each key. `contentType` is what `cty` names, which goes without `application/` (RFC 7516 §4.1.12). */
export async function decrypted(
  message: Bytes,
  keys: readonly string[],
): Promise<{ contentType: string; body: Bytes }> {
  const parts = textOf(message).split('.');
  const [head = '', wrappedKey, nonce = '', text = '', tag = ''] = parts;
  if (parts.length !== 5 || wrappedKey !== '') throw refused('it is no compact JWE with a direct key');
  const { cty, ...rest } = headOf(head);
  checkHeader(rest);
  const [iv, end] = [fromBase64url(nonce), fromBase64url(tag)];
  if (iv.length !== NONCE_BYTES || end.length !== TAG_BYTES) throw refused('nonce or tag have another length');
  const sealed = joined(fromBase64url(text), end);
  for (const key of keys) {
    const hash = await crypto.subtle.digest('SHA-256', utf8(key));
    const imported = await crypto.subtle.importKey('raw', hash, 'AES-GCM', false, ['decrypt']);
    const algorithm = { name: 'AES-GCM', iv, additionalData: utf8(head) };
    // Another key, or changed bytes; WebCrypto does not report which.
    const opened = await crypto.subtle.decrypt(algorithm, imported, sealed).catch(() => undefined);
    if (opened === undefined) continue;
    const type = typeof cty === 'string' ? cty : 'octet-stream';
    return { contentType: type.includes('/') ? type : `application/${type}`, body: new Uint8Array(opened) };
  }
  throw refused('none of the keys opens it');
}
