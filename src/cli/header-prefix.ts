/** Reads the operator's header prefix from the headers of a received delivery. */

const NAME = /^(.+)-webhook-(?:event|signature)$/i;

export function prefixIn(headers: Readonly<Record<string, string>>): string | undefined {
  return Object.keys(headers).flatMap((name) => NAME.exec(name)?.[1] ?? [])[0];
}
