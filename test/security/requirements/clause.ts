/** One security requirement and its tests. */
export type Clause = {
  /** In the words of the design. */
  clause: string;
  /** `<file> > <title>`; the title as it is in the source, with the placeholders of a template. */
  tests: readonly string[];
  /** What an attacker gains if the clause is broken: then a mutation test must exist. */
  guards?: 'secret' | 'code' | 'redirect';
  /** Names of mutations in test/mutations/mutations.txt. */
  mutations?: readonly string[];
  /** Which part is proved elsewhere or not yet, and why. */
  later?: string;
};

export type Section = { section: string; clauses: readonly Clause[] };
