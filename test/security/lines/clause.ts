/** One thing that must hold, and what shows that it does. */
export type Clause = {
  /** In the words of the design. */
  clause: string;
  /** `<file> > <name>`; the name as it stands in the source, with what a template leaves open. */
  tests: readonly string[];
  /** What somebody would have if it did not hold: then a sabotage of it must be noticed. */
  guards?: 'secret' | 'code' | 'redirect';
  /** Names of patches in test/sabotage, without their ending. */
  sabotage?: readonly string[];
  /** What of it is proved elsewhere or not yet, and why. */
  later?: string;
};

export type Line = { line: string; clauses: readonly Clause[] };
