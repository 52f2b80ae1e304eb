/**
 * Long enough for a machine that is ten times slower than ours: a test that waits in vain fails, however fast the machine is.
 * A mutation often makes a test wait in vain, so those give up earlier.
 */
export const PATIENCE_MS = process.env['HALCYON_MUTATION_TASKS'] === undefined ? 60_000 : 10_000;

/** Asks until the answer satisfies; gives up, with what it last was, when patience ends. */
export const until = async <T>(
  ask: () => Promise<T>,
  satisfies: (answer: T) => boolean,
  patienceMs = PATIENCE_MS,
): Promise<T> => {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const answer = await ask();
    if (satisfies(answer)) return answer;
    if (performance.now() > deadline) throw new Error(`Waited in vain; the last answer was ${JSON.stringify(answer)}`);
    // A turn of the event loop and then some: a condition that is asked without a pause takes the core it waits for.
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};
