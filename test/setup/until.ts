/**
 * The time limit of waiting, long enough for a machine ten times slower than CI. Mutation runs have a shorter one, because a
 * mutation often makes a test wait in vain.
 */
export const PATIENCE_MS = process.env['HALCYON_MUTATION_TASKS'] === undefined ? 60_000 : 10_000;

/** Longer than one turn of the event loop: polling without a pause would use the core that the awaited work needs. */
const FIRST_PAUSE_MS = 4;
const LONGEST_PAUSE_MS = 100;
/** The pause grows with the time that has passed, so that a wait of ten seconds takes 140 questions instead of 2,000. */
const PAUSE_SHARE = 0.2;

/** Repeats the function until its result satisfies the condition; throws with the last result at the time limit. */
export async function until<T>(
  ask: () => Promise<T>,
  satisfies: (answer: T) => boolean,
  patienceMs = PATIENCE_MS,
): Promise<T> {
  const startedMs = performance.now();
  for (;;) {
    const answer = await ask();
    if (satisfies(answer)) return answer;
    const passedMs = performance.now() - startedMs;
    if (passedMs > patienceMs) throw new Error(`Waited in vain; the last answer was ${JSON.stringify(answer)}`);
    const pauseMs = Math.min(Math.max(FIRST_PAUSE_MS, passedMs * PAUSE_SHARE), LONGEST_PAUSE_MS);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
