/** Assertions about printed findings. */
import assert from 'node:assert/strict';
import type { Finding } from '../../src/cli/doctor/finding.ts';

export function saidOf({ state, message }: Finding): string {
  return `${state} ${message}`;
}

/** Returns the findings that `halcyon doctor --json` printed. */
export function findingsIn({ out }: { out: string }): Finding[] {
  return (JSON.parse(out) as { findings: Finding[] }).findings;
}

/** Asserts that one finding matches, and that each problem says how to fix it. */
export function assertFinding(findings: readonly Finding[], expected: RegExp): void {
  assert.ok(
    findings.some((finding) => expected.test(saidOf(finding))),
    findings.map(saidOf).join('\n'),
  );
  for (const { state, advice = '' } of findings)
    assert.equal(state === 'ok', advice === '', 'every problem has a remedy, and only problems have one');
}
