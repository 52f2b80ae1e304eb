/** A rule about test files. */
import type { Fault, File } from './tree.ts';

const FIRST_TEST = /^(?:test|for \(.*\) test)\(/m;
/** At the top level of the module, and in no function. */
const AWAIT = /^(?! |.*\basync\b).*\bawait\b/gm;

/**
 * What a file awaits at its top level stands before its first test: a test starts when it is declared, so if all of
 * them end while the file still waits, the file counts as ended, and what it opened is closed under the tests below.
 */
export function lateSetups(files: readonly File[]): Fault[] {
  return files
    .filter(({ isTest }) => isTest)
    .flatMap(({ path, bare }) => {
      const first = FIRST_TEST.exec(bare)?.index ?? bare.length;
      return [...bare.matchAll(AWAIT)]
        .filter(({ index }) => index > first)
        .map(({ index }) => `${path}:${bare.slice(0, index).split('\n').length} awaits after its first test`);
    });
}
