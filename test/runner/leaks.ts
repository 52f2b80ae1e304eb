/** What keeps the event loop alive, compared before and after a test file. */

const POLL_MS = 10;

/** Returns the number of active resources by type, such as `TCPSocketWrap`. Unreferenced timers and sockets are not in it. */
export function activeResources(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const type of process.getActiveResourcesInfo()) counts.set(type, (counts.get(type) ?? 0) + 1);
  return counts;
}

function added(before: ReadonlyMap<string, number>): string[] {
  const now = [...activeResources()];
  return now.flatMap(([type, count]) => Array.from({ length: count - (before.get(type) ?? 0) }, () => type));
}

/** Waits until no more is active than before, at most for `patienceMs`, and returns what stayed active all the same. */
export async function leftBehind(before: ReadonlyMap<string, number>, patienceMs: number): Promise<readonly string[]> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const left = added(before);
    if (left.length === 0 || performance.now() > deadline) return left;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
