const REMEMBERED = 10_000;

/**
 * Answers whether an id is new among the last `limit` that it was asked about. It is the memory of one process: where an
 * event must not count twice after a restart either, keep the ids where you keep what follows from them.
 */
export function rememberIds(limit: number = REMEMBERED): (id: string) => boolean {
  const seen = new Set<string>();
  return (id) => {
    if (seen.has(id)) return false;
    seen.add(id);
    const [oldest] = seen;
    if (seen.size > limit && oldest !== undefined) seen.delete(oldest);
    return true;
  };
}
