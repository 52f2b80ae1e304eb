/** What the operator has headers of a delivery begin with, as those of a delivery that came tell it. */

const NAME = /^(.+)-webhook-(?:event|signature)$/i;

/** Undefined where none of them does. */
export const prefixIn = (headers: Readonly<Record<string, string>>): string | undefined =>
  Object.keys(headers).flatMap((name) => NAME.exec(name)?.[1] ?? [])[0];
