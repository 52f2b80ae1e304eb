/** Findings of checks, and assertions about them. */
import assert from 'node:assert/strict';
import { runChecks, type Check, type Finding } from '../../src/cli/doctor/check.ts';

export function saidOf({ state, message }: Finding): string {
  return `${state} ${message}`;
}

/** Returns the findings of the checks, or of those with a name. */
export async function findingsOf<Place>(
  checks: readonly Check<Place>[],
  place: Place,
  name?: string,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  const named = checks.filter((check) => name === undefined || check.name === name);
  assert.ok(named.length > 0, `there is no check ${name}`);
  await runChecks(named, place, (found) => void findings.push(...found));
  return findings;
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
