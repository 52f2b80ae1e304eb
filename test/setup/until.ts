/**
 * The time limit of waiting, long enough for a machine ten times slower than CI. Mutation runs have a shorter one, because a
 * mutation often makes a test wait in vain.
 */
export const PATIENCE_MS = process.env['HALCYON_MUTATION_TASKS'] === undefined ? 60_000 : 10_000;

/** Repeats the function until its result satisfies the condition; throws with the last result at the time limit. */
export async function until<T>(
  ask: () => Promise<T>,
  satisfies: (answer: T) => boolean,
  patienceMs = PATIENCE_MS,
): Promise<T> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const answer = await ask();
    if (satisfies(answer)) return answer;
    if (performance.now() > deadline) throw new Error(`Waited in vain; the last answer was ${JSON.stringify(answer)}`);
    // Pauses longer than one turn of the event loop: polling without a pause would use the core that the awaited work needs.
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
