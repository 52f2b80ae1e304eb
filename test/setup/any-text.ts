/** Text of any characters. fast-check's own `unit: 'binary'` prepares 1.1 s in each process. */
import * as fc from 'fast-check';

/** UTF-16 code units that are half of a character. */
const isSurrogate = (code: number): boolean => code >= 0xd800 && code <= 0xdfff;

const CHARACTER = fc
  .integer({ min: 0, max: 0x10ffff })
  .filter((code) => !isSurrogate(code))
  .map((code) => String.fromCodePoint(code));

export const anyText = (bounds: { minLength?: number; maxLength?: number } = {}): fc.Arbitrary<string> =>
  fc.string({ unit: CHARACTER, ...bounds });
