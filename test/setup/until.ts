/** Asks until the answer satisfies; gives up, with what it last was, after ten seconds. */
export const until = async <T>(ask: () => Promise<T>, satisfies: (answer: T) => boolean): Promise<T> => {
  const deadline = performance.now() + 10_000;
  for (;;) {
    const answer = await ask();
    if (satisfies(answer)) return answer;
    if (performance.now() > deadline) throw new Error(`Waited in vain; the last answer was ${JSON.stringify(answer)}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
};
