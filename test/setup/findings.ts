/** Findings as a person reads them. */
import assert from 'node:assert/strict';
import type { Finding } from '../../src/cli/doctor/finding.ts';

export const saidOf = ({ state, message }: Finding): string => `${state} ${message}`;

/** At least one finding is this, and whatever is not well says what to do. */
export const demandFinding = (findings: readonly Finding[], told: RegExp): void => {
  assert.ok(
    findings.some((finding) => told.test(saidOf(finding))),
    findings.map(saidOf).join('\n'),
  );
  for (const { state, advice = '' } of findings)
    assert.equal(state === 'ok', advice === '', 'advice where it is needed');
};
