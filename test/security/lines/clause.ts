/** One thing that must hold, and what shows that it does. */
export type Clause = {
  /** In the words of the design. */
  clause: string;
  /** `<file> > <name>`; the name as it stands in the source, with what a template leaves open. */
  tests: readonly string[];
  /** What an attacker gains where the clause does not hold: then a mutation that breaks it must be caught. */
  guards?: 'secret' | 'code' | 'redirect';
  /** Names of patches in test/mutations, without their ending. */
  mutations?: readonly string[];
  /** What of it is proved elsewhere or not yet, and why. */
  later?: string;
};

export type Line = { line: string; clauses: readonly Clause[] };
